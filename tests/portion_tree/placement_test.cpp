// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Where portions are put, under each policy.

#include <cstdint>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "host/portion_tree.hpp"
#include "tests/portion_tree/model.hpp"

namespace orchard {
namespace {

using testing::portion_at;

constexpr auto packed = portion_policy::packed;
constexpr auto padded = portion_policy::padded;

// A tree in which the first `blocks` of 100 segments have joined.
portion_tree tree_of(portion_policy policy, std::uint32_t blocks) {
    portion_tree tree({100, policy});
    for (std::uint32_t i = 0; i < blocks; ++i) {
        EXPECT_TRUE(tree.join(segment_index{i}));
    }
    return tree;
}

std::optional<portion> take(portion_tree& tree, std::uint32_t leaves, std::uint32_t alignment = 1) {
    return tree.take(leaf_count{leaves}, leaf_count{alignment});
}

TEST(portion_sizes, are_counted_in_whole_leaves) {
    EXPECT_EQ(leaves_for(0), leaf_count{0});
    EXPECT_EQ(leaves_for(1), leaf_count{1});
    EXPECT_EQ(leaves_for(big_page_bytes), leaf_count{1});
    EXPECT_EQ(leaves_for(big_page_bytes + 1), leaf_count{2});
    EXPECT_EQ(leaves_for(segment_bytes - 1), leaf_count{32});
    EXPECT_EQ(leaves_for(~std::uint64_t{0}), leaf_count{32});
}

TEST(portion_sizes, packed_are_as_asked_and_padded_powers_of_two) {
    constexpr std::uint32_t power[] = {0, 1, 2, 4, 4, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 0, 0};
    for (std::uint32_t n = 0; n < 32; ++n) {
        EXPECT_EQ(portion_leaves(packed, leaf_count{n}), leaf_count{n});
        EXPECT_EQ(portion_leaves(padded, leaf_count{n}), leaf_count{n < 19 ? power[n] : 0}) << n;
    }
    for (const std::uint32_t n : {32u, 33u, 0xffffffffu}) {
        EXPECT_EQ(portion_leaves(packed, leaf_count{n}), leaf_count{0});
        EXPECT_EQ(portion_leaves(padded, leaf_count{n}), leaf_count{0});
    }
    EXPECT_EQ(reserved_for(packed, leaf_count{5}), leaf_count{5});
    EXPECT_EQ(reserved_for(padded, leaf_count{8}), leaf_count{16});
}

TEST(packed_portions, lie_side_by_side) {
    portion_tree tree = tree_of(packed, 2);
    EXPECT_EQ(take(tree, 3), portion_at(0, 0, 3));
    EXPECT_EQ(take(tree, 1), portion_at(0, 3, 1));
    EXPECT_EQ(take(tree, 27), portion_at(0, 4, 27));
    EXPECT_EQ(take(tree, 2), portion_at(1, 0, 2));
    EXPECT_EQ(take(tree, 1), portion_at(0, 31, 1));
}

TEST(packed_portions, go_where_the_least_room_holds_them) {
    portion_tree tree = tree_of(packed, 3);
    const auto a = take(tree, 20);
    const auto b = take(tree, 30);
    ASSERT_EQ(b, portion_at(1, 0, 30));
    EXPECT_EQ(take(tree, 2), portion_at(1, 30, 2));
    EXPECT_EQ(take(tree, 12), portion_at(0, 20, 12));
    ASSERT_EQ(tree.release(*a), portion_release::released);
    EXPECT_EQ(take(tree, 20), a) << "not in the empty block";
}

TEST(packed_portions, split_the_shortest_run_of_a_block) {
    portion_tree tree = tree_of(packed, 1);
    std::vector<portion> all;
    for (const std::uint32_t n : {6u, 1u, 3u, 1u, 21u}) {
        all.push_back(*take(tree, n));
    }
    EXPECT_EQ(tree.release(all[0]), portion_release::released);
    EXPECT_EQ(tree.release(all[2]), portion_release::released);
    EXPECT_EQ(take(tree, 2), portion_at(0, 7, 2));
    EXPECT_EQ(take(tree, 4), portion_at(0, 0, 4));
    EXPECT_EQ(take(tree, 3), std::nullopt);
}

TEST(packed_portions, are_aligned_where_asked) {
    portion_tree tree = tree_of(packed, 2);
    EXPECT_EQ(take(tree, 1), portion_at(0, 0, 1));
    EXPECT_EQ(take(tree, 6, 2), portion_at(0, 2, 6));
    EXPECT_EQ(take(tree, 16, 16), portion_at(0, 16, 16));
    EXPECT_EQ(take(tree, 8, 8), portion_at(0, 8, 8));
    EXPECT_EQ(take(tree, 24, 8), portion_at(1, 0, 24));
    EXPECT_EQ(take(tree, 2, 2), portion_at(1, 24, 2));
}

// The block with the tightest room has it at the wrong place; the next one that certainly has a place is looked at.
TEST(packed_portions, that_are_aligned_may_pass_over_a_tighter_block) {
    portion_tree tree = tree_of(packed, 2);
    EXPECT_EQ(take(tree, 29), portion_at(0, 0, 29));
    EXPECT_EQ(take(tree, 2, 2), portion_at(0, 30, 2));
    const auto last = portion_at(0, 30, 2);
    EXPECT_EQ(tree.release(last), portion_release::released);
    EXPECT_EQ(take(tree, 3, 2), portion_at(1, 0, 3)) << "[29, 32) holds no three aligned to two";
}

TEST(padded_portions, take_the_left_child_and_leave_the_right_one_empty) {
    portion_tree tree = tree_of(padded, 2);
    EXPECT_EQ(take(tree, 3), portion_at(0, 0, 4));
    EXPECT_EQ(take(tree, 1), portion_at(0, 8, 1));
    EXPECT_EQ(take(tree, 1), portion_at(0, 10, 1));
    EXPECT_EQ(take(tree, 2), portion_at(0, 12, 2));
    EXPECT_EQ(take(tree, 8), portion_at(0, 16, 8));
    EXPECT_EQ(take(tree, 1), portion_at(1, 0, 1)) << "leaves 4 to 7, 9, 11, 14, 15, 24 to 31 are padding";
    EXPECT_EQ(tree.owned_leaves(), 17u);
    EXPECT_EQ(tree.reserved_leaves(), 34u);
}

TEST(padded_portions, of_half_a_block_have_it_alone) {
    portion_tree tree = tree_of(padded, 2);
    EXPECT_EQ(take(tree, 9), portion_at(0, 0, 16));
    EXPECT_EQ(take(tree, 16), portion_at(1, 0, 16));
    EXPECT_EQ(take(tree, 1), std::nullopt);
    EXPECT_EQ(take(tree, 17), std::nullopt);
}

TEST(padded_portions, split_the_smallest_node) {
    portion_tree tree = tree_of(padded, 1);
    const auto a = take(tree, 4);
    const auto b = take(tree, 1);
    ASSERT_EQ(b, portion_at(0, 8, 1));
    ASSERT_EQ(tree.release(*a), portion_release::released);
    EXPECT_EQ(take(tree, 1), portion_at(0, 10, 1));
    EXPECT_EQ(take(tree, 2), portion_at(0, 12, 2));
    EXPECT_EQ(take(tree, 4), portion_at(0, 0, 4));
}

TEST(padded_portions, are_as_aligned_as_they_are_large) {
    portion_tree tree = tree_of(padded, 1);
    EXPECT_EQ(take(tree, 1), portion_at(0, 0, 1));
    EXPECT_EQ(take(tree, 7, 4), portion_at(0, 16, 8));
}

TEST(both_policies, refuse_what_is_no_portion) {
    for (const auto policy : {packed, padded}) {
        portion_tree tree = tree_of(policy, 1);
        for (const std::uint32_t leaves : {0u, 32u, 33u, 0xffffffffu}) {
            EXPECT_EQ(take(tree, leaves), std::nullopt) << leaves;
            EXPECT_EQ(tree.take_leftmost(segment_index{0}, leaf_count{leaves}), std::nullopt) << leaves;
        }
        for (const std::uint32_t alignment : {0u, 3u, 8u, 0x80000000u}) {
            EXPECT_EQ(take(tree, 4, alignment), std::nullopt) << alignment;
        }
        EXPECT_EQ(tree.portions(), 0u);
        EXPECT_TRUE(tree.validate().ok()) << tree.validate();
    }
}

// docs/pictures/portions.svg, which profiling/report/plot_portions.py draws.
TEST(both_policies, place_the_portions_of_the_picture) {
    portion_tree side_by_side = tree_of(packed, 2);
    portion_tree apart = tree_of(padded, 2);
    const struct {
        std::uint32_t asked;
        portion packed_at;
        portion padded_at;
    } picture[] = {
        {5, portion_at(0, 0, 5), portion_at(0, 0, 8)},   {1, portion_at(0, 5, 1), portion_at(0, 16, 1)},
        {2, portion_at(0, 6, 2), portion_at(0, 20, 2)},  {8, portion_at(0, 8, 8), portion_at(1, 0, 8)},
        {3, portion_at(0, 16, 3), portion_at(0, 24, 4)}, {1, portion_at(0, 19, 1), portion_at(0, 18, 1)},
    };
    for (const auto& each : picture) {
        EXPECT_EQ(take(side_by_side, each.asked), each.packed_at) << each.asked;
        EXPECT_EQ(take(apart, each.asked), each.padded_at) << each.asked;
    }
}

TEST(both_policies, find_tells_where_take_takes) {
    for (const auto policy : {packed, padded}) {
        portion_tree tree = tree_of(policy, 2);
        for (const std::uint32_t leaves : {5u, 1u, 9u, 4u, 2u}) {
            const auto found = tree.find(leaf_count{leaves});
            EXPECT_EQ(take(tree, leaves), found);
        }
    }
}

}  // namespace
}  // namespace orchard
