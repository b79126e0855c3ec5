// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The request of one lane for an interleaved array, and the place that its array gets. These two structs pass between
/// the inlined calls of `heap_ref` and the slow path behind them (slow_paths.cuh). They have a file of their own
/// because the host build includes their declarations without that path.

#include <cstdint>

#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/managed_advice.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::device {

/// A lane's request for the layout of its array.
struct lane_wish {
    layout how;               ///< the layout that the call, or else the heap's option, asks for
    advice_code advice;       ///< advice for the chunk; 0: the heap's own
    std::uint32_t element;    ///< size of an element in bytes: a power of two
    std::uint32_t alignment;  ///< alignment of an element in bytes
};

/// The distance by which a chunk's tail rows are moved, if its tail lies elsewhere: from where they would begin behind
/// the segments to where they do, in leaves of 64 KiB. `lane_array` has 25 bits for it.
struct tail_shift {
    static constexpr std::uint32_t bits = 25;
    /// The most segments of a heap whose tails may lie elsewhere: the distance between any two of its leaves fits.
    static constexpr std::uint32_t max_segments = (1u << (bits - 1)) / leaves_per_segment;
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
    std::int32_t shift = 0;      ///< the `tail_shift` of tail rows
    bool linear = false;         ///< a linear block is to be used instead, which is not allocated yet
};

}  // namespace orchard::device
