// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a lane asks for when it wants an interleaved array, and where its array lies then.

#include <cstdint>

#include "uvm/geometry/layout.hpp"

namespace orchard::device {

/// How a lane wants its array to lie.
struct lane_wish {
    layout how;               ///< what the call, or the heap's option, says
    std::uint32_t element;    ///< bytes of an element: a power of two
    std::uint32_t alignment;  ///< of an element
};

/// Where a lane's array lies.
struct lane_place {
    void* chunk = nullptr;  ///< where its sub-array begins; null: there is none
    lane_map map{};
    std::uint32_t position = 0;
    bool linear = false;  ///< a plain block will do instead, and has not been allocated
};

}  // namespace orchard::device
