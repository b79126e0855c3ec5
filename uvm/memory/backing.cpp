// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "uvm/memory/backing.hpp"

#include "absl/strings/str_format.h"

namespace orchard {

// The defaults of backings that keep all memory, and in which no memory moves.
absl::Status backing::decommit(segment_run run) {
    return absl::FailedPreconditionError(
        absl::StrFormat("cannot decommit segments [%d, +%d): this backing cannot take memory back",
                        to_underlying(run.first), run.count));
}

absl::Status backing::prefetch(void* /*at*/, std::size_t bytes, memory_tier /*to*/) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "cannot move %d bytes: memory of this backing stays where it is; use the backing managed", bytes));
}

}  // namespace orchard
