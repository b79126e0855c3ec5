// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Invalid requests are rejected and change nothing; `validate` finds each kind of planted fault.

#include <string>

#include <gtest/gtest.h>

#include "host/or_tree.hpp"
#include "tests/or_tree/or_tree_peer.hpp"

namespace orchard {
namespace {

using ::testing::Test;

segment_run run_at(std::uint32_t first, std::uint32_t count) { return {segment_index{first}, count}; }

TEST(or_tree_errors, what_is_free_already_is_not_given_back) {
    or_tree tree(200, true);
    EXPECT_FALSE(tree.give_back(run_at(7, 1)));
    EXPECT_TRUE(tree.take(run_at(60, 10)));
    EXPECT_FALSE(tree.give_back(run_at(60, 11)));
    EXPECT_FALSE(tree.give_back(run_at(59, 2)));
    EXPECT_EQ(tree.free_count(), 190u);
    EXPECT_TRUE(tree.give_back(run_at(60, 10)));
    EXPECT_FALSE(tree.give_back(run_at(60, 10)));
    EXPECT_EQ(tree.free_count(), 200u);
    EXPECT_TRUE(tree.validate().ok()) << tree.validate();
}

TEST(or_tree_errors, what_is_taken_is_not_taken_again) {
    or_tree tree(200, true);
    EXPECT_TRUE(tree.take(run_at(100, 1)));
    EXPECT_FALSE(tree.take(run_at(0, 200)));
    EXPECT_FALSE(tree.take(run_at(100, 1)));
    EXPECT_EQ(tree.free_count(), 199u);
    EXPECT_TRUE(tree.validate().ok()) << tree.validate();
}

TEST(or_tree_errors, what_lies_outside_is_refused) {
    or_tree tree(100, false);
    for (const segment_run run : {run_at(100, 1), run_at(99, 2), run_at(0, 101), run_at(5, 0xffffffff),
                                  run_at(0xffffffff, 1), run_at(0xffffffff, 0xffffffff), run_at(101, 0)}) {
        EXPECT_FALSE(tree.give_back(run)) << to_underlying(run.first) << " + " << run.count;
        EXPECT_FALSE(tree.take(run)) << to_underlying(run.first) << " + " << run.count;
    }
    EXPECT_FALSE(tree.is_free(segment_index{100}));
    EXPECT_FALSE(tree.is_free(no_segment));
    EXPECT_EQ(tree.free_count(), 0u);
    EXPECT_TRUE(tree.validate().ok()) << tree.validate();
}

TEST(or_tree_errors, an_empty_run_changes_nothing) {
    or_tree tree(100, true);
    EXPECT_TRUE(tree.take(run_at(5, 0)));
    EXPECT_TRUE(tree.give_back(run_at(100, 0)));
    EXPECT_EQ(tree.take_run(0), std::nullopt);
    EXPECT_EQ(tree.find_run(0), std::nullopt);
    EXPECT_EQ(tree.free_count(), 100u);
}

TEST(or_tree_errors, a_tree_of_nothing_has_nothing) {
    or_tree tree(0, true);
    EXPECT_EQ(tree.size(), 0u);
    EXPECT_EQ(tree.take_lowest(), std::nullopt);
    EXPECT_EQ(tree.take_run(0), std::nullopt);
    EXPECT_EQ(tree.take_run(2), std::nullopt);
    EXPECT_EQ(tree.find_run(1), std::nullopt);
    EXPECT_EQ(tree.longest_run(), 0u);
    EXPECT_FALSE(tree.give_back(run_at(0, 1)));
    EXPECT_TRUE(tree.validate().ok()) << tree.validate();
}

TEST(or_tree_errors, no_more_than_max_segments_are_covered) {
    EXPECT_EQ(or_tree(max_segments + 1, true).size(), max_segments);
    EXPECT_EQ(or_tree(max_segments + 1, true).free_count(), max_segments);
}

class or_tree_fault : public Test {
protected:
    // Plants a fault, and wants a message that has `text` in it.
    void expect_fault(const std::string& text) {
        const absl::Status s = tree_.validate();
        EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
        EXPECT_NE(s.message().find(text), absl::string_view::npos) << s;
    }

    void SetUp() override {
        ASSERT_TRUE(tree_.take(run_at(0, 5000)));
        ASSERT_EQ(tree_.longest_run(), 295'000u);
        ASSERT_TRUE(tree_.validate().ok()) << tree_.validate();
    }

    or_tree tree_{300'000, true};
};

TEST_F(or_tree_fault, a_lost_bit) {
    or_tree_peer::leaf(tree_, 100) ^= 1;
    expect_fault("the leaf words hold 294999");
}

TEST_F(or_tree_fault, a_bit_past_the_end) {
    or_tree_peer::leaf(tree_, 300'000 / 64) |= 1ull << 63;
    expect_fault("leaf word 4687");
}

TEST_F(or_tree_fault, a_wrong_count) {
    ++or_tree_peer::free_count(tree_);
    expect_fault("295001 segments are counted as free");
}

TEST_F(or_tree_fault, a_hint_too_high) {
    or_tree_peer::hint(tree_) = 80;
    expect_fault("hint, word 80");
}

TEST_F(or_tree_fault, a_wrong_inner_word) {
    or_tree_peer::inner(tree_, 1, 1) ^= 1ull << 40;
    expect_fault("word 1 at level 1");
}

TEST_F(or_tree_fault, a_wrong_second_inner_word) {
    or_tree_peer::inner(tree_, 2, 1) ^= 1;
    expect_fault("word 1 at level 2");
}

TEST_F(or_tree_fault, a_wrong_root) {
    or_tree_peer::inner(tree_, 3, 0) ^= 4;
    expect_fault("word 0 at level 3");
}

TEST_F(or_tree_fault, a_wrong_summary_of_a_word) {
    or_tree_peer::word_block(tree_, 1).prefix[14] = 3;
    expect_fault("run summary of word 78 at level 0");
}

TEST_F(or_tree_fault, a_wrong_mark_of_a_full_word) {
    or_tree_peer::word_block(tree_, 2).full ^= 1ull << 9;
    expect_fault("run summary of word 137 at level 0");
}

TEST_F(or_tree_fault, a_wrong_summary_of_a_node) {
    or_tree_peer::node_block(tree_, 0).longest[1] = 17;
    expect_fault("run summary of word 1 at level 1");
}

TEST_F(or_tree_fault, a_wrong_longest_run) {
    or_tree_peer::root(tree_).longest = 1;
    expect_fault("recorded as 1");
}

TEST_F(or_tree_fault, a_stale_summary_that_is_not_marked_above) {
    ASSERT_EQ(tree_.take_lowest(), segment_index{5000});
    ASSERT_TRUE(tree_.validate().ok()) << tree_.validate();
    or_tree_peer::stale(tree_, 1, 0) = 0;
    expect_fault("node 1 at level 1 has stale children");
}

}  // namespace
}  // namespace orchard
