// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The options for the placement of memory: layouts of arrays, and the sharing of VA blocks by tails.

#include <gtest/gtest.h>

#include <string>

#include "runtime/options/options.hpp"

namespace orchard {
namespace {

TEST(LayoutOption, IsReadAndWritten) {
    EXPECT_EQ(options{}.layout, layout::automatic());
    for (const char* text :
         {"automatic", "linear", "interleaved:4", "interleaved:512", "interleaved:1K", "interleaved:64K"}) {
        options values;
        ASSERT_TRUE(set(values, "layout", text).ok()) << text;
        EXPECT_NE(to_text(values).find("layout = " + std::string(text) + "\n"), std::string::npos) << text;
    }
    options values;
    ASSERT_TRUE(set(values, "layout", "interleaved:16").ok());
    EXPECT_EQ(values.layout, layout::interleaved(tile::b16));
}

TEST(LayoutOption, SaysWhatIsAllowed) {
    for (const std::string text : {"", "interleaved", "interleaved:2", "interleaved:128K", "interleaved:3", "Linear"}) {
        options values;
        const absl::Status s = set(values, "layout", text);
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << text;
        EXPECT_EQ(s.message(),
                  "layout: \"" + text +
                      "\" is not a layout; give automatic, linear, or interleaved:TILE with a tile of 4, 8, "
                      "... 512 bytes, 1K, 2K, ... 64K");
        EXPECT_EQ(values, options{});
    }
    options values;
    values.layout = layout{layout::choice::interleaved, static_cast<tile>(17)};
    EXPECT_EQ(validate(values).code(), absl::StatusCode::kOutOfRange);
}

TEST(PortionsOption, IsReadAndWritten) {
    EXPECT_EQ(options{}.portions, portion_policy::packed);
    options values;
    ASSERT_TRUE(set(values, "portions", "padded").ok());
    EXPECT_EQ(values.portions, portion_policy::padded);
    EXPECT_NE(to_text(values).find("portions = padded\n"), std::string::npos);
    ASSERT_TRUE(set(values, "portions", "packed").ok());
    EXPECT_EQ(values.portions, portion_policy::packed);
}

TEST(PortionsOption, SaysWhatIsAllowed) {
    options values;
    const absl::Status s = set(values, "portions", "dense");
    EXPECT_EQ(s.message(), "portions: \"dense\" is not a policy for portions; give packed or padded");
    values.portions = static_cast<portion_policy>(5);
    EXPECT_EQ(validate(values).message(), "portions: 5 is not a policy for portions; give packed or padded");
}

TEST(TailsOption, IsReadAndWritten) {
    EXPECT_EQ(options{}.tails, tail_policy::adjacent);
    options values;
    ASSERT_TRUE(set(values, "tails", "pooled").ok());
    EXPECT_EQ(values.tails, tail_policy::pooled);
    EXPECT_NE(to_text(values).find("tails = pooled\n"), std::string::npos);
    const absl::Status s = set(values, "tails", "shared");
    EXPECT_EQ(s.message(), "tails: \"shared\" is not a policy for tails; give adjacent or pooled");
    values.tails = static_cast<tail_policy>(3);
    EXPECT_EQ(validate(values).message(), "tails: 3 is not a policy for tails; give adjacent or pooled");
}

TEST(LaneOrderOption, IsReadAndWritten) {
    EXPECT_EQ(options{}.lane_order, lane_order::ascending);
    options values;
    ASSERT_TRUE(set(values, "lane_order", "prefetch_first").ok());
    EXPECT_EQ(values.lane_order, lane_order::prefetch_first);
    EXPECT_NE(to_text(values).find("lane_order = prefetch_first\n"), std::string::npos);
}

TEST(LaneOrderOption, SaysWhatIsAllowed) {
    options values;
    const absl::Status s = set(values, "lane_order", "descending");
    EXPECT_EQ(s.message(), "lane_order: \"descending\" is not an order of lanes; give ascending or prefetch_first");
    values.lane_order = static_cast<lane_order>(7);
    EXPECT_EQ(validate(values).message(), "lane_order: 7 is not an order of lanes; give ascending or prefetch_first");
}

}  // namespace
}  // namespace orchard
