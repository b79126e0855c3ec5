// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The defaults of the functions of a backing that most backings do not support; backing.hpp describes them. A backing
/// that can take memory back, or can move it, overrides them.

#include "uvm/memory/backing.hpp"

#include "absl/strings/str_format.h"

namespace orchard {

// The defaults of backings that keep all memory, and in which no memory moves.
absl::Status backing::decommit(segment_run run) {
    return absl::FailedPreconditionError(
        absl::StrFormat("cannot decommit segments [%d, +%d): this backing cannot take memory back",
                        to_underlying(run.first), run.count));
}

/// Only the managed backings override this: memory that was allocated or mapped for one tier stays in that tier.
absl::Status backing::prefetch(void* /*at*/, std::size_t bytes, memory_tier /*to*/) {
    return absl::FailedPreconditionError(
        absl::StrFormat("cannot move %d bytes: memory of this heap stays where it is; use the backing managed, or "
                        "give an elastic heap the options host_budget and move_unit",
                        bytes));
}

absl::Status backing::advise_segments(segment_run run, advice_code /*advice*/) {
    return advise(nullptr, std::uint64_t{run.count} << segment_shift, managed_advice::none);
}

absl::Status backing::advise(void* /*at*/, std::size_t bytes, managed_advice /*what*/) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "cannot advise the driver about %d bytes: memory of this backing stays where it is; use the backing managed",
        bytes));
}

absl::Status backing::limit_device(std::uint64_t /*bytes*/) {
    return absl::FailedPreconditionError(
        "the budget of this heap cannot change: only an elastic heap's can; give the option backing = elastic");
}

absl::Status backing::finish_stream(void* /*stream*/) { return move({}); }

absl::Status backing::move(const std::vector<move_order>& /*orders*/) {
    return absl::FailedPreconditionError(
        "memory of this heap does not move between the tiers; give the options backing = elastic, host_budget and "
        "move_unit (2MiB, say), on a GPU whose driver maps host memory");
}

}  // namespace orchard
