// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The order in which lanes lie in a row.
///
/// The lanes of a warp fault in ascending order, and one fault batch may contain only some of them. `prefetch_first`
/// puts the lane that faults i-th at the position that the paper assigns to the i-th fault: 0, 1, 2, 4, 6, ..., and
/// then 3, 5, 7, ...
///
///     lane          0  1  2  3  4  5  6  7        W = 8
///     its position  0  1  2  4  6  3  5  7
///     row          |0 |1 |2 |5 |3 |6 |4 |7 |      the lane at each position
///
/// The first half of the faults therefore reaches every pair of tiles. The driver's prefetcher fills a subtree as soon
/// as more than 51 % of it is resident, so it brings the other half. The paper also requires that the tiles at the end
/// of a batch are discrete, so that the next batch triggers prefetching. This holds by construction: from position 2
/// on, and as long as even positions are left, the last tile of any batch is alone in its pair.
///
/// The order matters only if a fault batch ends within a warp (docs/uvm.md, section 5). Source: Zhang et al.,
/// AlignMalloc, TPDS 2025, section V-A.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard {

/// The assignment of positions to the lanes of a warp chunk.
enum class lane_order : std::uint8_t {
    ascending,       ///< lane l lies at position l
    prefetch_first,  ///< the paper's: even positions first, after 0 and 1
};

/// Returns the position of `lane` < `width` among `width` lanes. Cost: a few operations, no memory.
///
///     W = 8: lanes 0, 1, 2 at 0, 1, 2; `even` = 4; lanes 3 and 4 at 2 * 2 = 4 and 2 * 3 = 6; lane 5 at 2 * 1 + 1 = 3
ORCHARD_FN constexpr std::uint32_t position_of(lane_order order, std::uint32_t width, std::uint32_t lane) {
    if (order == lane_order::ascending || lane < 3) {
        return lane;
    }
    // Lanes take positions 0 and 1, then the other even positions (one fewer than all even ones), then odd ones from 3
    // on.
    const std::uint32_t even = (width + 1) / 2;
    return lane <= even ? 2 * (lane - 1) : 2 * (lane - even) + 1;
}

/// Returns the lane at `position` < `width`: the inverse of `position_of`. Cost: as that.
ORCHARD_FN constexpr std::uint32_t lane_at(lane_order order, std::uint32_t width, std::uint32_t position) {
    if (order == lane_order::ascending || position < 3) {
        return position;
    }
    return position % 2 == 0 ? position / 2 + 1 : (width + 1) / 2 + position / 2;
}

static_assert(position_of(lane_order::prefetch_first, 32, 3) == 4 && lane_at(lane_order::prefetch_first, 32, 31) == 31);

}  // namespace orchard
