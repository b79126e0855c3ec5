// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The record of a kernel's accesses; see recorder.hpp.

#include "device/simt/emulated/recorder.hpp"

#include <algorithm>

#include "device/simt/emulated/block_runner.hpp"

namespace orchard::simt::emulated {

__thread access_recorder* current_recorder = nullptr;

void record(const volatile void* word, access kind) {
    const lane* const l = current_lane;
    if (l != nullptr) {
        current_recorder->add(l->runner->position_of(*l).global_warp(), static_cast<std::uint32_t>(l->id), word, kind);
    }
}

/// Makes room for a launch of `warps` warps. All lanes of a warp begin it at the same step, behind the last one of
/// earlier launches. No worker runs yet, so that the table may grow; later each worker changes only records of its own
/// warps, without a lock.
void access_recorder::begin_launch(std::uint64_t warps) {
    if (warps > warps_.size()) {
        warps_.resize(warps);
    }
    for (std::uint64_t w = 0; w < warps_.size(); ++w) {
        meet(w, ~lane_mask{0});
    }
}

/// Sorts the accesses that the launch added. They lie in the order in which the lanes ran, which depends on the
/// scheduler; the sorted order does not.
void access_recorder::end_launch() {
    for (warp_record& w : warps_) {
        // Sorted by step and lane: a lane has one access in a step.
        std::sort(w.accesses.begin() + static_cast<std::ptrdiff_t>(w.sorted), w.accesses.end(),
                  [](const recorded_access& a, const recorded_access& b) {
                      return a.step != b.step ? a.step < b.step : a.lane < b.lane;
                  });
        w.sorted = w.accesses.size();
    }
}

void access_recorder::add(std::uint64_t warp, std::uint32_t lane, const volatile void* word, access kind) {
    // An address below the range wraps around to a large offset, so that one comparison suffices.
    const std::uint64_t offset = reinterpret_cast<std::uint64_t>(word) - begin_;
    if (offset < bytes_) {
        warp_record& w = warps_[warp];
        w.accesses.push_back({offset, w.next[lane], static_cast<std::uint8_t>(lane), kind});
        ++w.next[lane];
    }
}

//     steps before    lane 0: 5    lane 1: 3    lane 2: 4       lanes 0 and 1 meet
//     steps after     lane 0: 5    lane 1: 5    lane 2: 4
void access_recorder::meet(std::uint64_t warp, lane_mask lanes) {
    std::array<std::uint32_t, warp_size>& next = warps_[warp].next;
    std::uint32_t latest = 0;
    for_each_lane(lanes, [&](int l) { latest = std::max(latest, next[static_cast<std::size_t>(l)]); });
    for_each_lane(lanes, [&](int l) { next[static_cast<std::size_t>(l)] = latest; });
}

}  // namespace orchard::simt::emulated
