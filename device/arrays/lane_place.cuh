// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The request of one lane for an interleaved array, and the place that its array gets.

#include <cstdint>

#include "uvm/geometry/layout.hpp"

namespace orchard::device {

/// A lane's request for the layout of its array.
struct lane_wish {
    layout how;               ///< the layout that the call, or else the heap's option, asks for
    std::uint32_t element;    ///< size of an element in bytes: a power of two
    std::uint32_t alignment;  ///< alignment of an element in bytes
};

/// The place of a lane's array.
struct lane_place {
    void* chunk = nullptr;  ///< where the array's sub-array begins; null: there is none
    lane_map map{};
    std::uint32_t position = 0;
    bool linear = false;  ///< a linear block is to be used instead, which is not allocated yet
};

}  // namespace orchard::device
