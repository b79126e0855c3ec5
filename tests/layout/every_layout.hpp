// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#pragma once

/// The range of layouts in the tests.

#include <gtest/gtest.h>

#include <cstdint>

#include "uvm/geometry/layout.hpp"

namespace orchard::test {

/// The tiles, from the smallest.
inline constexpr tile every_tile[] = {tile::b4,   tile::b8,   tile::b16,  tile::b32, tile::b64,
                                      tile::b128, tile::b256, tile::b512, tile::k1,  tile::k2,
                                      tile::k4,   tile::k8,   tile::k16,  tile::k32, tile::k64};

/// Calls `act(tile, lanes)` for all 15 tiles with 1 to 32 lanes; stops at the first failure, and reports its layout.
template <class Act>
void for_every_tile_and_width(Act act) {
    for (const tile t : every_tile) {
        for (std::uint32_t width = 1; width <= max_lanes; ++width) {
            SCOPED_TRACE(testing::Message() << bytes_of(t) << " B tiles, " << width << " lanes");
            act(t, width);
            if (testing::Test::HasFatalFailure()) {
                return;
            }
        }
    }
}

/// The same with 1, 2, 4, 8, 16 and 32 lanes: `act(tile, log2 of the lanes)`.
template <class Act>
void for_every_pointable(Act act) {
    for (const tile t : every_tile) {
        for (std::uint32_t log_width = 0; log_width <= 5; ++log_width) {
            SCOPED_TRACE(testing::Message() << bytes_of(t) << " B tiles, " << (1u << log_width) << " lanes");
            act(t, log_width);
            if (testing::Test::HasFatalFailure()) {
                return;
            }
        }
    }
}

}  // namespace orchard::test
