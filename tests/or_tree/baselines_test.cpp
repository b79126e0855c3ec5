// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The OR-tree and its baselines give the same results, so that the benchmark compares equal work.

#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "host/or_tree.hpp"
#include "profiling/baselines/binary_or_tree.hpp"
#include "profiling/baselines/gallatin_veb_tree.hpp"
#include "profiling/baselines/linear_bitmap.hpp"
#include "profiling/baselines/successor_runs.hpp"
#include "profiling/baselines/veb_tree.hpp"

namespace orchard {
namespace {

using baselines::successor_runs;

class baselines_sequence : public ::testing::TestWithParam<std::uint32_t> {};

// The structures that are compared with `or_tree`, all of one size. `each` calls a function with every one of them.
struct all_baselines {
    all_baselines(std::uint32_t segments, bool all_free)
        : binary(segments, all_free),
          linear(segments, all_free),
          textbook(segments, all_free),
          word_leaf(segments, all_free),
          gallatin(segments, all_free) {}

    template <class Check>
    void each(Check&& check) {
        check(binary, "binary_or_tree");
        check(linear, "linear_bitmap");
        check(textbook, "textbook_veb_tree");
        check(word_leaf, "word_leaf_veb_tree");
        check(gallatin, "gallatin_veb_tree");
    }

    baselines::binary_or_tree binary;
    baselines::linear_bitmap linear;
    successor_runs<baselines::textbook_veb_tree> textbook;
    successor_runs<baselines::word_leaf_veb_tree> word_leaf;
    successor_runs<baselines::gallatin_veb_tree> gallatin;
};

TEST_P(baselines_sequence, answer_as_the_or_tree) {
    const std::uint32_t segments = GetParam();
    for (const bool all_free : {true, false}) {
        or_tree tree(segments, all_free);
        all_baselines others(segments, all_free);
        std::mt19937 random(segments);
        std::vector<segment_run> live;
        for (int step = 0; step < 3000 && !HasFatalFailure(); ++step) {
            if (random() % 2 == 0) {
                const std::uint32_t k = random() % 8 == 0 ? static_cast<std::uint32_t>(random() % 300)
                                                          : static_cast<std::uint32_t>(random() % 5);
                const auto first = tree.take_run(k);
                others.each([&](auto& other, const char* name) {
                    ASSERT_EQ(other.find_run(k), first) << name << ", " << k << " at step " << step;
                    ASSERT_EQ(other.take_run(k), first) << name << ", " << k << " at step " << step;
                });
                if (first) {
                    live.push_back({*first, k});
                }
                continue;
            }
            segment_run run{segment_index{static_cast<std::uint32_t>(random() % (segments + 2))},
                            static_cast<std::uint32_t>(random() % 70)};
            if (!live.empty() && random() % 4 != 0) {
                std::swap(live[random() % live.size()], live.back());
                run = live.back();
                live.pop_back();
            }
            const bool done = tree.give_back(run);
            others.each([&](auto& other, const char* name) {
                ASSERT_EQ(other.give_back(run), done) << name << ", " << to_underlying(run.first) << "+" << run.count;
            });
        }
        ASSERT_TRUE(tree.validate().ok()) << tree.validate();
        while (const auto first = tree.take_lowest()) {
            others.each([&](auto& other, const char* name) { ASSERT_EQ(other.take_run(1), first) << name; });
        }
        others.each([&](auto& other, const char* name) { ASSERT_EQ(other.take_run(1), std::nullopt) << name; });
    }
}

// Takes and gives back runs wherever they begin, also runs that must be refused.
TEST_P(baselines_sequence, take_exactly_the_runs_that_the_or_tree_takes) {
    const std::uint32_t segments = GetParam();
    or_tree tree(segments, true);
    all_baselines others(segments, true);
    std::mt19937 random(segments);
    int taken = 0;
    for (int step = 0; step < 3000 && !HasFatalFailure(); ++step) {
        const segment_run run{segment_index{static_cast<std::uint32_t>(random() % (segments + 2))},
                              static_cast<std::uint32_t>(random() % 4)};
        const bool take = random() % 2 == 0;
        const bool done = take ? tree.take(run) : tree.give_back(run);
        taken += take && done ? 1 : 0;
        others.each([&](auto& other, const char* name) {
            if constexpr (requires { other.take(run); }) {
                ASSERT_EQ(take ? other.take(run) : other.give_back(run), done) << name << " at step " << step;
            }
            if constexpr (requires { other.successor(run.first); }) {
                std::optional<segment_index> next;
                for (std::uint32_t i = to_underlying(run.first) + 1; i < segments && !next; ++i) {
                    next = tree.is_free(segment_index{i}) ? std::optional(segment_index{i}) : std::nullopt;
                }
                ASSERT_EQ(other.successor(run.first), next) << name << " at step " << step;
            }
        });
    }
    EXPECT_GT(taken, 100);
}

INSTANTIATE_TEST_SUITE_P(sizes, baselines_sequence, ::testing::Values(1u, 7u, 64u, 65u, 1000u, 4096u, 20'000u),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace orchard
