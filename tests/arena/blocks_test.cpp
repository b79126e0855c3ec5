// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include <gtest/gtest.h>

#include "profiling/arena/blocks.hpp"

namespace orchard::arena {
namespace {

TEST(arena_blocks, blocks_side_by_side_are_sound) {
    const findings f = inspect({{4096 + 32, 20}, {4096, 32}, {4096 + 64, 16}});
    EXPECT_EQ(f.blocks, 3u);
    EXPECT_EQ(f.nulls + f.misaligned + f.overlapping, 0u);
    EXPECT_EQ(f.bytes, 80u);
    EXPECT_EQ(f.span, 80u);
}

TEST(arena_blocks, each_fault_is_counted) {
    // The second block lies in the first, the third begins in the first, too; the fourth is at an odd place.
    const findings f = inspect({{4096, 256}, {4112, 16}, {4336, 32}, {8200, 16}, {0, 64}});
    EXPECT_EQ(f.blocks, 4u);
    EXPECT_EQ(f.overlapping, 2u);
    EXPECT_EQ(f.misaligned, 1u);
    EXPECT_EQ(f.nulls, 1u);
}

TEST(arena_blocks, the_same_address_twice_is_an_overlap) {
    EXPECT_EQ(inspect({{4096, 16}, {4096, 16}}).overlapping, 1u);
}

TEST(arena_blocks, none_is_no_fault) {
    const findings f = inspect({});
    EXPECT_EQ(f.blocks + f.nulls + f.span, 0u);
}

TEST(arena_blocks, the_gravest_fault_stays) {
    outcome o;
    note(o, {.blocks = 2, .nulls = 1});
    EXPECT_EQ(o.ended, verdict::null);
    o.fault(verdict::leak, "a leak");
    EXPECT_EQ(o.ended, verdict::null);
    note(o, {.blocks = 2, .overlapping = 1});
    EXPECT_EQ(o.ended, verdict::overlap);
    EXPECT_EQ(o.detail, "1 of 2 blocks overlap another");
    outcome full;
    note(full, {.blocks = 2, .nulls = 1}, true);
    EXPECT_EQ(full.ended, verdict::ok);
}

}  // namespace
}  // namespace orchard::arena
