// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Sums over the lanes of a group, for groups of which any lanes may be missing.

#include <cstdint>

#include "device/simt/lane.cuh"

namespace orchard::device {

/// The sum of the values of a group's lanes, and of those below one of its lanes.
struct lane_sum {
    std::uint64_t before;
    std::uint64_t all;
};

/// Returns the sums of the lanes' values. All lanes of `mask` call it, converged. The lanes with each bit of the values
/// are counted by a ballot. Cost: a reduction, and a ballot for each bit of the greatest value; no memory access.
///
///     lane    value      before    all
///       1     1 (01)       0        6
///       2     3 (11)       1        6
///       5     2 (10)       4        6
inline ORCHARD_FN lane_sum sum_lanes(simt::lane_mask mask, std::uint32_t value) {
    lane_sum sum{0, 0};
    const std::uint32_t bits = simt::reduce_or(mask, value);
    // The greatest value has its highest bit where `bits` has it.
    for (std::uint32_t rest = bits, bit = 0; rest != 0; rest >>= 1, ++bit) {
        const simt::lane_mask with = simt::ballot(mask, (value >> bit & 1) != 0);
        sum.before += static_cast<std::uint64_t>(simt::popcount(simt::lanes_below(with))) << bit;
        sum.all += static_cast<std::uint64_t>(simt::popcount(with)) << bit;
    }
    return sum;
}

}  // namespace orchard::device
