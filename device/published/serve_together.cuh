// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `serve_together`: one lane after another takes for all lanes of a group that still lack something.
///
/// A word that changes by compare-and-swap takes a microsecond or two for each lane that succeeds, one after another.
/// So lanes that come together change it once, for as many of them as it can serve.

#include <cstdint>

#include "device/group/leader.cuh"

namespace orchard::device {

/// What one lane has taken for `count` lanes.
struct taken_together {
    std::uint64_t what = 0;
    std::uint32_t count = 0;  ///< 0: there is nothing left
};

/// Serves the lanes `left` of `group`, all lanes of which call it together; once `take` returns nothing, no more of
/// them.
/// @param take  take(n): what one lane takes for itself and the others that are left, n in all; for 0 to n of them
/// @param use   use(what, rank), on each lane that is served: the `rank`-th one that shares `what`
template <class Take, class Use>
ORCHARD_INLINE void serve_together(simt::lane_mask group, simt::lane_mask left, const Take& take, const Use& use) {
    while (left != 0) {
        const int leader = simt::leader_of(left);
        taken_together taken;
        if (simt::lane_id() == leader) {
            taken = take(static_cast<std::uint32_t>(simt::popcount(left)));
        }
        simt::sync(group);  // what the leader has acquired
        const std::uint64_t what = simt::shuffle(group, taken.what, leader);
        const std::uint32_t count = simt::shuffle(group, taken.count, leader);
        if (count == 0) {
            return;
        }
        const bool is_left = (left >> simt::lane_id() & 1) != 0;
        const auto rank = static_cast<std::uint32_t>(simt::rank_in(left));
        if (is_left && rank < count) {
            use(what, rank);
        }
        left = simt::ballot(group, is_left && rank >= count);
    }
}

}  // namespace orchard::device
