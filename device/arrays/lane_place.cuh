// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The request of one lane for an interleaved array, and the place that its array gets. These two structs pass between
/// the inlined calls of `heap_ref` and the slow path behind them (slow_paths.cuh). They have a file of their own
/// because the host build includes their declarations without that path.

#include <cstdint>

#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::device {

/// A lane's request for the layout of its array.
struct lane_wish {
    layout how;               ///< the layout that the call, or else the heap's option, asks for
    std::uint32_t element;    ///< size of an element in bytes: a power of two
    std::uint32_t alignment;  ///< alignment of an element in bytes
};

/// The distance from a chunk to its tail, which lies elsewhere, in leaves of 64 KiB: 25 bits. `lane_array` has the lower
/// 24 of them; the sign is in `lane_map::ragged`.
struct tail_distance {
    static constexpr std::uint32_t bits = 24;
    static constexpr std::uint32_t low_bits = (1u << bits) - 1;
    /// The most segments of a heap whose tails can lie elsewhere: the distance between any two of its leaves fits.
    static constexpr std::uint32_t max_segments = (1u << bits) / leaves_per_segment;

    /// Returns the distance in bytes, modulo 2^64.
    /// @param low  the lower bits of the distance in leaves; the bits above do not count
    static ORCHARD_INLINE std::uint64_t bytes(std::uint32_t low, lane_map map) {
        const std::uint64_t leaves = low & low_bits;
        const std::uint64_t below = (map.ragged & lane_map::second_flag) != 0 ? std::uint64_t{1} << bits : 0;
        return (leaves - below) * big_page_bytes;
    }
};

/// The place of a lane's array. Three results are possible: `linear` is set; `chunk` is an address; or, after a
/// failure, neither.
///
///     chunk       | tile of lane 0 | tile of lane 1 | ... one row ... | tile of lane 0 | ...        map.width lanes
///                                    ^ position 1 of the first row
struct lane_place {
    void* chunk = nullptr;       ///< where the array's sub-array begins; null: there is none
    lane_map map{};              ///< tile and width of the sub-array
    std::uint32_t position = 0;  ///< position of the lane in the rows of the sub-array
    std::uint32_t tail = 0;      ///< if the map `is_split`: the lower bits of the `tail_distance` (lane_array.cuh)
    bool linear = false;         ///< a linear block is to be used instead, which is not allocated yet
};

}  // namespace orchard::device
