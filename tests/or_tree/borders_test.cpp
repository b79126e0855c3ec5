// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs that cross the borders of leaf words (64), nodes (4,096) and groups of nodes (262,144).

#include <gtest/gtest.h>

#include "host/or_tree.hpp"

namespace orchard {
namespace {

constexpr std::uint32_t borders[] = {64, 128, 4096, 8192, 262'144, 524'288};
constexpr std::uint32_t segments = 600'000;

segment_run run_at(std::uint32_t first, std::uint32_t count) { return {segment_index{first}, count}; }

TEST(or_tree_borders, the_only_run_is_found_wherever_it_lies) {
    for (const std::uint32_t border : borders) {
        for (const std::uint32_t before : {1u, 31u, 63u, 64u}) {
            for (const std::uint32_t after : {0u, 1u, 33u, 63u, 64u, 65u, 127u, 128u, 4095u, 4096u, 4097u, 12'000u}) {
                or_tree tree(segments, false);
                const segment_run run = run_at(border - before, before + after);
                ASSERT_TRUE(tree.give_back(run));
                ASSERT_EQ(tree.longest_run(), run.count);
                ASSERT_EQ(tree.find_run(run.count), run.first) << border << " -" << before << " +" << after;
                ASSERT_EQ(tree.find_run(run.count + 1), std::nullopt);
                ASSERT_EQ(tree.take_run(run.count), run.first);
                ASSERT_EQ(tree.free_count(), 0u);
                ASSERT_TRUE(tree.validate().ok()) << tree.validate();
            }
        }
    }
}

// At each earlier border lies a run that is one segment shorter; none of them may be taken for the right one.
TEST(or_tree_borders, near_misses_before_it_are_passed) {
    for (const std::uint32_t k : {2u, 16u, 63u, 64u, 65u, 100u, 127u, 128u, 500u}) {
        or_tree tree(segments, false);
        for (const std::uint32_t border : {1024u, 2048u, 4096u, 8192u, 262'144u}) {
            ASSERT_TRUE(tree.give_back(run_at(border - k / 2, k - 1)));
        }
        ASSERT_EQ(tree.find_run(k), std::nullopt) << k;
        ASSERT_TRUE(tree.give_back(run_at(524'288 - k / 2, k)));
        ASSERT_EQ(tree.find_run(k), segment_index{524'288 - k / 2}) << k;
        ASSERT_TRUE(tree.validate().ok()) << tree.validate();
    }
}

TEST(or_tree_borders, the_lowest_of_several_is_taken_first) {
    for (const std::uint32_t k : {2u, 40u, 64u, 100u, 200u, 5000u}) {
        or_tree tree(segments, false);
        for (const std::uint32_t border : {524'288u, 262'144u, 16'384u}) {
            ASSERT_TRUE(tree.give_back(run_at(border - 7, k + 7)));
            ASSERT_EQ(tree.find_run(k), segment_index{border - 7}) << k;
        }
    }
}

// The run's end in a full child, its beginning in the one before: it starts in the first, not at the full child.
TEST(or_tree_borders, a_run_that_begins_before_a_full_word_starts_there) {
    or_tree tree(segments, false);
    ASSERT_TRUE(tree.give_back(run_at(64 * 40 - 3, 64 + 3 + 2)));
    for (const std::uint32_t k : {50u, 64u, 65u, 68u, 69u}) {
        ASSERT_EQ(tree.find_run(k), segment_index{64 * 40 - 3}) << k;
    }
    ASSERT_EQ(tree.find_run(70), std::nullopt);
}

TEST(or_tree_borders, the_whole_tree_is_one_run) {
    for (const std::uint32_t size : {1u, 64u, 4096u, 4100u, 262'144u, 262'145u, segments}) {
        or_tree tree(size, true);
        ASSERT_EQ(tree.longest_run(), size);
        ASSERT_EQ(tree.find_run(size + 1), std::nullopt);
        ASSERT_EQ(tree.take_run(size), segment_index{0});
        ASSERT_EQ(tree.take_lowest(), std::nullopt);
        ASSERT_EQ(tree.longest_run(), 0u);
        ASSERT_TRUE(tree.validate().ok()) << tree.validate();
        ASSERT_TRUE(tree.give_back(run_at(0, size)));
        ASSERT_TRUE(tree.validate().ok()) << tree.validate();
    }
}

TEST(or_tree_borders, memory_committed_in_extents_joins_into_one_run) {
    or_tree tree(segments, false);
    for (std::uint32_t first = 0; first < 300'000; first += 1000) {
        ASSERT_TRUE(tree.give_back(run_at(first, 1000)));
        ASSERT_EQ(tree.longest_run(), first + 1000);
    }
    ASSERT_EQ(tree.take_run(300'000), segment_index{0});
    ASSERT_TRUE(tree.validate().ok()) << tree.validate();
}

TEST(or_tree_borders, the_largest_tree_has_its_last_segment) {
    or_tree tree(max_segments, true);
    ASSERT_EQ(tree.take_run(max_segments - 1), segment_index{0});
    ASSERT_EQ(tree.take_lowest(), segment_index{max_segments - 1});
    ASSERT_TRUE(tree.validate().ok()) << tree.validate();
}

}  // namespace
}  // namespace orchard
