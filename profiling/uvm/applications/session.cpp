// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The heap of an application, and the end of its run: comparison and trace.

#include "profiling/uvm/applications/session.hpp"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "runtime/cli/program_heap.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/model/recorded.hpp"

namespace orchard::applications {

namespace {

constexpr std::uint64_t max_threads = 1u << 20;
constexpr std::uint64_t max_scale = 1u << 20;

/// Returns options for a heap that has room for `bytes` in any layout. Padded portions take up to four times the
/// requested size. Of each array, a warp takes at least two leaves, or four if padded. No application has more than
/// eight arrays.
absl::StatusOr<options> options_for(const parameters& p, std::uint64_t bytes) {
    if (p.threads == 0 || p.threads > max_threads) {
        return absl::InvalidArgumentError(absl::StrFormat("%d threads: 1 to %d are allowed", p.threads, max_threads));
    }
    if (p.scale == 0 || p.scale > max_scale) {
        return absl::InvalidArgumentError(absl::StrFormat("scale %d: 1 to %d are allowed", p.scale, max_scale));
    }
    if (p.how.which == layout::choice::automatic) {
        return absl::InvalidArgumentError("the layout auto says nothing here: choose linear, or a tile");
    }
    constexpr std::uint64_t least = 32 * segment_bytes;
    const std::uint64_t warps = (p.threads + max_lanes - 1) / max_lanes;
    options o;
    // An emulated heap, whatever device the machine has: only its accesses can be recorded.
    o.device = device_option::emulated;
    // A segment for each warp: eight arrays of four leaves. Whole segments in all.
    o.capacity = (least + 5 * bytes + warps * segment_bytes) / segment_bytes * segment_bytes;
    o.emulated_workers = 1;  // so that races have the same result in each run
    o.lane_order = p.order;
    o.portions = p.portions;
    // Addresses `in_order` are those of the placement, whose tails may lie elsewhere than the heap's.
    o.tails = p.which == addresses::in_order ? tail_policy::adjacent : p.tails;
    return o;
}

/// Returns the memory of the threads as the model describes it; the sizes are those of each array.
uvm_model::thread_memory memory_of(const parameters& p) {
    return {.threads = p.threads, .how = p.how, .order = p.order, .portions = p.portions, .by = p.by, .tails = p.tails};
}

}  // namespace

absl::StatusOr<std::unique_ptr<session>> session::create(const parameters& p, std::uint64_t bytes) {
    const absl::StatusOr<options> values = options_for(p, bytes);
    if (!values.ok()) {
        return values.status();
    }
    absl::StatusOr<heap> made = command_line::create_heap(*values);
    if (!made.ok()) {
        return made.status();
    }
    return std::unique_ptr<session>(new session(p, *std::move(made)));
}

session::session(const parameters& p, heap h)
    : parameters_{p},
      heap_{std::move(h)},
      recorder_{heap_.ref().view().base, std::uint64_t{heap_.ref().view().segments} * segment_bytes},
      regions_{memory_of(p)} {}

absl::Status session::failure_of_heap() {
    const std::optional<failure> first = heap_.first_failure();
    return first.has_value() ? absl::ResourceExhaustedError(to_text(*first)) : absl::OkStatus();
}

void session::expect(const char* what, const std::vector<std::int64_t>& found, const std::vector<std::int64_t>& right) {
    if (!status_.ok()) {
        return;
    }
    // The first difference is named; the rest usually follows from it.
    const auto differs = std::mismatch(found.begin(), found.end(), right.begin(), right.end());
    if (differs.first != found.end() || differs.second != right.end()) {
        const auto at = differs.first - found.begin();
        fail(found.size() != right.size()
                 ? absl::InternalError(absl::StrFormat("%s: %d results, not %d", what, found.size(), right.size()))
                 : absl::InternalError(
                       absl::StrFormat("%s: result %d is %d, not %d", what, at, *differs.first, *differs.second)));
    }
}

absl::StatusOr<uvm_model::trace> session::trace() {
    // A trace of a run with an error would be incomplete: there is none.
    if (!status_.ok()) {
        return status_;
    }
    const auto recorded = uvm_model::recorded(recorder_);
    // Two kinds of addresses: the heap's own, or the ones that are the same in each run.
    if (parameters_.which == addresses::of_heap) {
        return uvm_model::trace::from(*recorded);
    }
    // The heap begins at a VA block, as do the recorded addresses.
    return uvm_model::trace::from(*regions_.in_order(*recorded, recorder_.begin()));
}

}  // namespace orchard::applications
