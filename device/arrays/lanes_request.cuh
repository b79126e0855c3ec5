// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/arrays/lane_place.cuh"
#include "device/large/chunk_free.cuh"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/ragged_rows.hpp"

namespace orchard::device {

/// The state of one lane in its group's request for interleaved arrays. `offset` is that of its sub-array. Similar
/// lanes (`alike`) agree in `most` and `least`; the lanes of one sub-array also agree in `map`, `first` and `offset`.
struct lanes_request : chunk_request {
    std::uint32_t log_turn;       ///< log2 of the tile
    std::uint32_t log_unit;       ///< log2 of the unit of sizes: the tile, or an OS page if tiles are above 4 KiB
    lane_map map{};               ///< the map of this lane's sub-array
    std::uint32_t position = 0;   ///< the lane's number in it; `order_of_lanes` maps it to a position in the rows
    std::uint32_t rank = 0;       ///< the lane's number in the chunk, in the order of the arrays
    std::uint64_t after = 0;      ///< `offset` of the lane of the next rank, or `total` for the last rank
    lane_mask alike = 0;          ///< lanes of similar size
    std::uint64_t most = 0;       ///< the greatest size of these, in units,
    std::uint64_t least = 0;      ///< and the least
    std::uint32_t first = 0;      ///< the rank among these lanes at which this lane's sub-array begins
    std::uint32_t log_align = 0;  ///< log2 of the sub-array's alignment
    std::uint32_t pages = 0;      ///< this lane's size in OS pages, if tiles are above 4 KiB
    // Of a tail that does not lie behind the segments (pooled_tail.cuh):
    std::uint32_t tail_leaves = 0;  ///< its leaves; 0: there is none
    std::uint32_t segments = 0;     ///< the chunk's `k`, while the request is for the tail alone
    std::uint64_t lane_bytes = 0;   ///< likewise the lane's `bytes`; these are 0 then
    std::uint32_t tail = 0;         ///< its first leaf, counted from the heap's first
    std::int32_t shift = 0;         ///< the `tail_shift` of tail rows; 0 if they are not moved
    std::uint32_t cut = 0;          ///< lanes of different lengths: OS pages of the chunk in the tail
};

/// Returns log2 of `x`, which is not 0, rounded down.
ORCHARD_INLINE std::uint32_t log_of_units(std::uint64_t x) {
    const auto high = static_cast<std::uint32_t>(x >> 32);
    return static_cast<std::uint32_t>(high != 0 ? 32 + simt::highest_bit(high)
                                                : simt::highest_bit(static_cast<std::uint32_t>(x)));
}

}  // namespace orchard::device
