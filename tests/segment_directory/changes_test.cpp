// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Every change, right or wrong, against one byte a segment; together with the OR-tree that it describes.

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "host/or_tree.hpp"
#include "host/segment_directory.hpp"

namespace orchard {
namespace {

segment_run run_at(std::uint32_t first, std::uint32_t count) { return {segment_index{first}, count}; }

struct model {
    std::vector<segment_state> states;

    segment_verdict change(segment_change asked, segment_run run) {
        const segment_state from = asked == segment_change::commit  ? segment_state::uncommitted
                                   : asked == segment_change::grant ? segment_state::free
                                                                    : segment_state::granted;
        const segment_state to = asked == segment_change::grant ? segment_state::granted : segment_state::free;
        for (std::uint32_t i = 0; i < run.count; ++i) {
            const segment_index at = run.first + i;
            const segment_state found =
                to_underlying(at) < states.size() ? states[to_underlying(at)] : segment_state::outside;
            if (found != from) {
                return {at, found, asked};
            }
        }
        for (std::uint32_t i = 0; i < run.count; ++i) {
            states[to_underlying(run.first + i)] = to;
        }
        return {};
    }
};

class directory_sequence : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(directory_sequence, answers_as_the_model_and_agrees_with_the_or_tree) {
    const std::uint32_t segments = GetParam();
    segment_directory directory(segments);
    model right{std::vector<segment_state>(segments, segment_state::uncommitted)};
    or_tree tree(segments, false);
    std::mt19937 random(segments);
    for (int step = 0; step < 3000; ++step) {
        const std::uint32_t limit = random() % 2 == 0 ? 1 : std::min(segments, 200u);
        const segment_run run = run_at(static_cast<std::uint32_t>(random() % (segments + 1)),
                                       static_cast<std::uint32_t>(random() % (limit + 1)));
        const auto asked = static_cast<segment_change>(random() % 3);
        const segment_verdict verdict = asked == segment_change::commit  ? directory.commit(run)
                                        : asked == segment_change::grant ? directory.grant(run)
                                                                         : directory.give_back(run);
        const segment_verdict expected = right.change(asked, run);
        ASSERT_EQ(verdict.ok(), expected.ok()) << to_status(verdict);
        if (!verdict.ok()) {
            ASSERT_EQ(verdict.offender, expected.offender);
            ASSERT_EQ(verdict.found, expected.found);
            ASSERT_EQ(verdict.asked, asked);
        } else {
            ASSERT_TRUE(asked == segment_change::grant ? tree.take(run) : tree.give_back(run));
        }
        if (step % 100 == 0) {
            ASSERT_TRUE(directory.validate(tree).ok()) << directory.validate(tree);
        }
    }
    for (const segment_state state : {segment_state::uncommitted, segment_state::free, segment_state::granted}) {
        ASSERT_EQ(directory.count(state), std::count(right.states.begin(), right.states.end(), state));
    }
    for (std::uint32_t i = 0; i < segments; ++i) {
        ASSERT_EQ(directory.state(segment_index{i}), right.states[i]) << i;
    }
    ASSERT_TRUE(directory.validate(tree).ok()) << directory.validate(tree);
}

INSTANTIATE_TEST_SUITE_P(sizes, directory_sequence, ::testing::Values(1u, 63u, 64u, 65u, 1000u, 4097u),
                         ::testing::PrintToStringParamName());

TEST(segment_directory, a_large_directory_changes_as_a_whole) {
    segment_directory directory(1'000'000);
    or_tree tree(1'000'000, true);
    EXPECT_TRUE(directory.commit(run_at(0, 1'000'000)).ok());
    EXPECT_EQ(directory.count(segment_state::free), 1'000'000u);
    EXPECT_TRUE(directory.validate(tree).ok());
    EXPECT_TRUE(directory.grant(run_at(0, 1'000'000)).ok());
    EXPECT_EQ(directory.count(segment_state::granted), 1'000'000u);
    EXPECT_EQ(directory.count(segment_state::free), 0u);
    EXPECT_FALSE(directory.validate(tree).ok());
}

TEST(segment_directory, a_directory_of_nothing_has_nothing) {
    segment_directory directory(0);
    EXPECT_FALSE(directory.commit(run_at(0, 1)).ok());
    EXPECT_TRUE(directory.commit(run_at(0, 0)).ok());
    EXPECT_EQ(directory.count(segment_state::uncommitted), 0u);
    EXPECT_TRUE(directory.validate(or_tree(0, true)).ok());
}

}  // namespace
}  // namespace orchard
