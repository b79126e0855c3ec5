// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Layouts as values, and as text.

#include "uvm/geometry/layout_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "tests/layout/every_layout.hpp"

namespace orchard::test {
namespace {

TEST(Layout, IsASmallValue) {
    static_assert(sizeof(layout) == 2 && std::is_trivially_copyable_v<layout>);
    constexpr layout chosen = layout::interleaved(tile::b16);
    static_assert(chosen.which == layout::choice::interleaved && chosen.turn == tile::b16);
    EXPECT_EQ(layout(), layout::automatic());
    EXPECT_NE(layout::linear(), layout::automatic());
    EXPECT_NE(layout::interleaved(tile::b4), layout::interleaved(tile::b8));
    EXPECT_EQ(layout::interleaved(tile::k64), layout::interleaved(largest_tile));
}

TEST(Layout, HasATextThatLeadsBack) {
    EXPECT_EQ(text_of(layout::automatic()), "automatic");
    EXPECT_EQ(text_of(layout::linear()), "linear");
    EXPECT_EQ(text_of(layout::interleaved(tile::b4)), "interleaved:4");
    EXPECT_EQ(text_of(layout::interleaved(tile::k1)), "interleaved:1K");
    EXPECT_EQ(text_of(layout::interleaved(tile::k64)), "interleaved:64K");
    for (const layout l : {layout::automatic(), layout::linear()}) {
        EXPECT_EQ(layout_from(text_of(l)), l);
    }
    for (const tile t : every_tile) {
        EXPECT_EQ(layout_from(text_of(layout::interleaved(t))), layout::interleaved(t));
    }
}

TEST(Layout, OtherTextIsNone) {
    for (const char* text : {"", "Linear", "linear ", "interleaved", "interleaved:", "interleaved:3", "interleaved:2",
                             "interleaved:128K", "interleaved:1024", "interleaved:64k", "4"}) {
        EXPECT_EQ(layout_from(text), std::nullopt) << text;
    }
}

TEST(LaneOrder, HasATextThatLeadsBack) {
    for (const lane_order order : {lane_order::ascending, lane_order::prefetch_first}) {
        EXPECT_EQ(lane_order_from(text_of(order)), order);
    }
    EXPECT_EQ(lane_order_from("descending"), std::nullopt);
}

}  // namespace
}  // namespace orchard::test
