// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// VA blocks join and leave; tails of chunks take the leftmost leaves; invalid requests are rejected and change
/// nothing.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "host/portion_tree.hpp"
#include "tests/portion_tree/model.hpp"
#include "tests/portion_tree/portion_tree_peer.hpp"

namespace orchard {
namespace {

using testing::portion_at;

constexpr auto packed = portion_policy::packed;
constexpr auto padded = portion_policy::padded;

class portion_space : public ::testing::TestWithParam<portion_policy> {
protected:
    portion_tree tree_{{200, GetParam()}};
};

INSTANTIATE_TEST_SUITE_P(policies, portion_space, ::testing::Values(packed, padded),
                         [](const auto& each) { return each.param == packed ? "packed" : "padded"; });

TEST_P(portion_space, is_empty_at_first) {
    EXPECT_EQ(tree_.blocks(), 0u);
    EXPECT_EQ(tree_.take(leaf_count{1}), std::nullopt);
    EXPECT_EQ(tree_.lowest_empty(), std::nullopt);
    EXPECT_TRUE(tree_.validate().ok()) << tree_.validate();
}

TEST_P(portion_space, blocks_join_once_and_leave_when_empty) {
    EXPECT_TRUE(tree_.join(segment_index{77}));
    EXPECT_FALSE(tree_.join(segment_index{77}));
    EXPECT_FALSE(tree_.join(segment_index{200}));
    EXPECT_FALSE(tree_.join(no_segment));
    EXPECT_EQ(tree_.empty_blocks(), 1u);
    EXPECT_EQ(tree_.lowest_empty(), segment_index{77});
    const auto a = tree_.take(leaf_count{1});
    const auto b = tree_.take(leaf_count{4});
    ASSERT_TRUE(a && b);
    EXPECT_FALSE(tree_.leave(segment_index{77}));
    EXPECT_EQ(tree_.lowest_empty(), std::nullopt);
    EXPECT_EQ(tree_.release(*a), portion_release::released);
    EXPECT_EQ(tree_.release(*b), portion_release::emptied);
    EXPECT_TRUE(tree_.contains(segment_index{77})) << "the owner of the tree decides when it leaves";
    EXPECT_TRUE(tree_.leave(segment_index{77}));
    EXPECT_FALSE(tree_.leave(segment_index{77}));
    EXPECT_FALSE(tree_.leave(segment_index{200}));
    EXPECT_EQ(tree_.take(leaf_count{1}), std::nullopt);
    EXPECT_TRUE(tree_.validate().ok()) << tree_.validate();
}

// A chunk of k whole segments and a tail: the tail's block follows directly, begins with the tail, and also holds other
// portions.
TEST_P(portion_space, the_tail_of_a_chunk_follows_its_whole_segments) {
    const segment_index next{64};
    EXPECT_EQ(tree_.take_leftmost(next, leaf_count{4}), portion_at(64, 0, 4));
    EXPECT_TRUE(tree_.contains(next)) << "has joined";
    EXPECT_FALSE(tree_.join(next));
    EXPECT_EQ(tree_.take_leftmost(next, leaf_count{1}), std::nullopt) << "taken";
    EXPECT_EQ(tree_.take(leaf_count{4}), portion_at(64, GetParam() == packed ? 4 : 8, 4));
    EXPECT_EQ(tree_.release(portion_at(64, 0, 4)), portion_release::released);
    EXPECT_EQ(tree_.take_leftmost(next, leaf_count{2}), portion_at(64, 0, 2));
}

TEST_P(portion_space, an_empty_block_is_taken_last) {
    ASSERT_TRUE(tree_.join(segment_index{3}));
    ASSERT_TRUE(tree_.join(segment_index{9}));
    ASSERT_TRUE(tree_.take_leftmost(segment_index{9}, leaf_count{1}));
    EXPECT_EQ(tree_.take(leaf_count{8})->block, segment_index{9});
    EXPECT_EQ(tree_.lowest_empty(), segment_index{3});
}

TEST_P(portion_space, only_what_was_taken_is_released) {
    ASSERT_TRUE(tree_.join(segment_index{5}));
    const portion a = *tree_.take(leaf_count{4});
    const portion b = *tree_.take(leaf_count{2});
    const std::uint32_t at = to_underlying(b.first);
    for (const portion& wrong :
         {portion_at(5, 0, 3), portion_at(5, 0, 5), portion_at(5, 0, 8), portion_at(5, 1, 3), portion_at(5, 2, 2),
          portion_at(5, 0, 6), portion_at(5, 0, 0), portion_at(5, at, 1), portion_at(5, at + 1, 1),
          portion_at(5, 31, 1), portion_at(5, 32, 1), portion_at(5, 0xffffffff, 1), portion_at(5, 0, 0xffffffff),
          portion_at(5, 0, 0x80000004), portion_at(4, 0, 4), portion_at(200, 0, 4), portion_at(0xffffffff, 0, 4),
          portion{}}) {
        EXPECT_FALSE(tree_.holds(wrong));
        EXPECT_EQ(tree_.release(wrong), portion_release::rejected) << testing::text_of(wrong);
    }
    EXPECT_EQ(tree_.portions(), 2u);
    EXPECT_EQ(tree_.release(a), portion_release::released);
    EXPECT_EQ(tree_.release(a), portion_release::rejected);
    EXPECT_EQ(tree_.release(b), portion_release::emptied);
    EXPECT_EQ(tree_.release(b), portion_release::rejected);
    EXPECT_TRUE(tree_.validate().ok()) << tree_.validate();
}

TEST_P(portion_space, a_portion_is_known_by_where_it_begins) {
    ASSERT_TRUE(tree_.join(segment_index{5}));
    const portion all[] = {*tree_.take(leaf_count{4}), *tree_.take(leaf_count{2}), *tree_.take(leaf_count{1})};
    for (std::uint32_t leaf = 0; leaf < leaves_per_segment + 2; ++leaf) {
        const auto found =
            std::find_if(std::begin(all), std::end(all), [&](const portion& p) { return p.first == leaf_index{leaf}; });
        EXPECT_EQ(tree_.portion_at(segment_index{5}, leaf_index{leaf}),
                  found == std::end(all) ? std::nullopt : std::optional(*found));
    }
    EXPECT_EQ(tree_.portion_at(segment_index{4}, leaf_index{0}), std::nullopt);
    EXPECT_EQ(tree_.portion_at(segment_index{200}, leaf_index{0}), std::nullopt);
}

TEST_P(portion_space, of_a_million_segments_works_at_both_ends) {
    constexpr std::uint32_t million = 1u << 20;
    portion_tree tree({million, GetParam()});
    for (const std::uint32_t block : {0u, million - 1}) {
        EXPECT_EQ(tree.take_leftmost(segment_index{block}, leaf_count{16}), portion_at(block, 0, 16));
    }
    EXPECT_FALSE(tree.join(segment_index{million}));
    EXPECT_EQ(tree.release(portion_at(0, 0, 16)), portion_release::emptied);
    EXPECT_TRUE(tree.leave(segment_index{0}));
    EXPECT_EQ(tree.release(portion_at(million - 1, 0, 16)), portion_release::emptied);
    EXPECT_EQ(tree.take(leaf_count{1}), portion_at(million - 1, 0, 1));
}

// --- planted faults ---

class portion_tree_faults : public ::testing::Test {
protected:
    // `fault(tree)` plants one in a valid tree; `validate` must name it in these words.
    template <class Fault>
    static void expect_found(portion_policy policy, const std::string& words, Fault&& fault) {
        portion_tree tree({100, policy});
        ASSERT_TRUE(tree.join(segment_index{70}));
        ASSERT_TRUE(tree.take(leaf_count{4}));
        ASSERT_TRUE(tree.take(leaf_count{2}));
        ASSERT_TRUE(tree.validate().ok()) << tree.validate();
        fault(tree);
        const absl::Status s = tree.validate();
        EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
        EXPECT_NE(s.message().find(words), std::string::npos) << s << " lacks: " << words;
    }
    using peer = portion_tree_peer;
};

TEST_F(portion_tree_faults, of_blocks_are_found) {
    const auto both = {packed, padded};
    for (const auto policy : both) {
        expect_found(policy, "block 70: free leaves", [](auto& t) { peer::free(t, 70) |= 1; });
        expect_found(policy, "block 70: leaf 0 is reserved", [](auto& t) { peer::starts(t, 70) &= ~1u; });
        expect_found(policy, "block 70: leaf 20 is reserved", [](auto& t) { peer::free(t, 70) &= ~(1u << 20); });
    }
    expect_found(packed, "reserves 32 leaves: a whole block", [](auto& t) {
        peer::free(t, 70) = 0;
        peer::starts(t, 70) = 1;
    });
    expect_found(padded, "at leaf 0 reserves 7 leaves: not an aligned node", [](auto& t) { peer::free(t, 70) |= 128; });
    expect_found(padded, "at leaf 14 reserves 4 leaves", [](auto& t) {
        peer::free(t, 70) &= ~(15u << 14);
        peer::starts(t, 70) |= 1u << 14;
    });
}

TEST_F(portion_tree_faults, of_counts_and_index_are_found) {
    expect_found(packed, "2 blocks (0 empty), 2 portions and 6", [](auto& t) { ++peer::blocks(t); });
    expect_found(packed, "1 blocks (1 empty), 2 portions and 6", [](auto& t) { ++peer::empty(t); });
    expect_found(packed, "1 blocks (0 empty), 3 portions and 6", [](auto& t) { ++peer::portions(t); });
    expect_found(padded, "2 portions and 13 reserved leaves", [](auto& t) { ++peer::reserved(t); });
    expect_found(packed, "level 0, node 1, class 26 is 0; what is below makes it 0x40",
                 [](auto& t) { peer::room(t, 0, 1, 26) = 0; });
    expect_found(packed, "level 1, node 0, class 1 is 0x1", [](auto& t) { peer::room(t, 1, 0, 1) = 1; });
    expect_found(padded, "the root's classes are 0; its words make them 0x10", [](auto& t) { peer::present(t) = 0; });
    expect_found(packed, "block 99: free leaves", [](auto& t) {
        peer::free(t, 99) = 1;
        peer::starts(t, 99) = 1;
    });
}

TEST_F(portion_tree_faults, of_ownership_are_found) {
    segment_directory directory(100);
    ASSERT_TRUE(directory.commit({segment_index{0}, 100}).ok());
    ASSERT_TRUE(directory.grant({segment_index{7}, 1}).ok());
    portion_tree tree({100, packed});
    ASSERT_TRUE(tree.join(segment_index{7}));
    EXPECT_TRUE(tree.validate(directory).ok()) << tree.validate(directory);
    ASSERT_TRUE(directory.give_back({segment_index{7}, 1}).ok());
    EXPECT_NE(tree.validate(directory).message().find("block 7 is in the portion space"), std::string::npos);
}

}  // namespace
}  // namespace orchard
