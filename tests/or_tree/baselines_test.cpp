// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The OR-tree and its baselines give the same results, so that the benchmark compares equal work.

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "host/or_tree.hpp"
#include "profiling/baselines/binary_or_tree.hpp"
#include "profiling/baselines/linear_bitmap.hpp"

namespace orchard {
namespace {

class baselines_sequence : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(baselines_sequence, answer_as_the_or_tree) {
    const std::uint32_t segments = GetParam();
    for (const bool all_free : {true, false}) {
        or_tree tree(segments, all_free);
        baselines::binary_or_tree binary(segments, all_free);
        baselines::linear_bitmap linear(segments, all_free);
        std::mt19937 random(segments);
        std::vector<segment_run> live;
        for (int step = 0; step < 3000; ++step) {
            if (random() % 2 == 0) {
                const std::uint32_t k = random() % 8 == 0 ? static_cast<std::uint32_t>(random() % 300)
                                                          : static_cast<std::uint32_t>(random() % 5);
                const auto first = tree.take_run(k);
                ASSERT_EQ(binary.take_run(k), first) << k << " at step " << step;
                ASSERT_EQ(linear.take_run(k), first) << k << " at step " << step;
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
            ASSERT_EQ(binary.give_back(run), done) << to_underlying(run.first) << "+" << run.count;
            ASSERT_EQ(linear.give_back(run), done) << to_underlying(run.first) << "+" << run.count;
        }
        ASSERT_TRUE(tree.validate().ok()) << tree.validate();
        while (const auto first = tree.take_lowest()) {
            ASSERT_EQ(binary.take_run(1), first);
            ASSERT_EQ(linear.take_run(1), first);
        }
        ASSERT_EQ(binary.take_run(1), std::nullopt);
        ASSERT_EQ(linear.take_run(1), std::nullopt);
    }
}

INSTANTIATE_TEST_SUITE_P(sizes, baselines_sequence, ::testing::Values(1u, 7u, 64u, 65u, 1000u, 4096u, 20'000u),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace orchard
