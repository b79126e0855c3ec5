// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The equations, against values worked out by hand and against each other.

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>

#include "profiling/bench/random_walk_theory.hpp"

namespace orchard::bench::random_walk {
namespace {

/// H_32 = 586061125622639 / 144403552893600.
constexpr double harmonic_32 = 4.058495195436520;

TEST(Equation1, OfAQueue) {
    EXPECT_DOUBLE_EQ(queue_mean_steps(1), 1);
    EXPECT_DOUBLE_EQ(queue_mean_steps(7), 4);
    EXPECT_DOUBLE_EQ(queue_worst_steps(1), 1);
    EXPECT_DOUBLE_EQ(queue_worst_steps(2), 2 - std::pow(0.5, 32));
    EXPECT_NEAR(queue_worst_steps(3), 3 - std::pow(1.0 / 3, 32) - std::pow(2.0 / 3, 32), 1e-14);
    for (const std::uint64_t threads : {1000ull, 100'000ull, 1ull << 19}) {
        // Faulhaber's polynomial with its bracket and its factor, up to N^29.
        const auto n = static_cast<double>(threads);
        const double series = n - n / 33 + 0.5 - 8 / (3 * n) + 124 / (3 * n * n * n);
        EXPECT_NEAR(queue_worst_steps(threads) / series, 1, 1e-12);
        EXPECT_NEAR(queue_worst_steps(threads) / (n * 32 / 33), 1, 1e-3) << "what the paper rounds to";
    }
    EXPECT_DOUBLE_EQ(queue_worst_steps_exact(32), 32) << "one of 32 is always the last";
    EXPECT_DOUBLE_EQ(queue_worst_steps_exact(65), 64);
}

TEST(Equation2, ByHarmonicSums) {
    EXPECT_DOUBLE_EQ(mean_steps({10, 5, 1}), 2);
    EXPECT_DOUBLE_EQ(mean_steps({10, 5, 2}), 10.0 / 2 * (1.0 / 5 + 1.0 / 4));
    EXPECT_DOUBLE_EQ(mean_steps({4, 4, 4}), 1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4);
    EXPECT_NEAR(mean_steps({32, 32, 32}), harmonic_32, 1e-10);
    // T = 2^20, half of it free, half of that taken: 4 ln 2, and (H_A - H_(A - N)) is less by 1 / (4 (A - N)) or so.
    const setting s{1 << 20, 1 << 19, 1 << 18};
    EXPECT_DOUBLE_EQ(mean_steps_by_logarithm(s), 4 * std::log(2.0));
    EXPECT_NEAR(mean_steps(s), 4 * (std::log(2.0) + 1.0 / (2 << 19) - 1.0 / (2 << 18)), 1e-11);
    EXPECT_TRUE(std::isinf(mean_steps_by_logarithm({10, 5, 5})));
    EXPECT_DOUBLE_EQ(mean_steps({10, 2, 2}), 5.0 * 1.5);
}

TEST(Collisions, AreThoseOfTheBirthdays) {
    // The paper: with 1 million pages and 5,000 threads 12.5 pairs, times the share of free pages.
    EXPECT_NEAR(expected_collisions({1'000'000, 1'000'000, 5000}), 12.5, 0.003);
    EXPECT_DOUBLE_EQ(expected_collisions({100, 50, 2}), 2.0 / 200 / 2);
}

TEST(Equation3, IsTheMeanOfTheGreatestOf32) {
    EXPECT_DOUBLE_EQ(worst_steps_bound({10, 10, 0}), 1) << "every step finds a page";
    // With probability 1/2: 1 + sum over k >= 1 of 1 - (1 - 2^-k)^32, summed from its far end.
    double half = 0;
    for (int k = 60; k >= 0; --k) {
        half += 1 - std::pow(1 - std::pow(0.5, k), 32);
    }
    EXPECT_NEAR(worst_steps_bound({100, 80, 30}), half, 1e-9);
    // With a small probability p: H_32 / p, but for half a step.
    EXPECT_NEAR(worst_steps_bound({1 << 20, 1 << 10, 0}) / (harmonic_32 * 1024), 1, 1e-3);
    EXPECT_TRUE(std::isinf(worst_steps_bound({100, 50, 50})));
}

TEST(Equation3, SumAndItsContinuationAgreeWhereTheyMeet) {
    // Below a rate of 1/64 the sum is replaced by its integral: no step at the border.
    const std::uint64_t pages = 64'000'000;
    const auto at = [&](double rate) {
        return worst_steps_bound({pages, static_cast<std::uint64_t>(-std::expm1(-rate) * pages), 0}) * rate;
    };
    EXPECT_NEAR(at(1.0 / 64 - 1e-6), harmonic_32 + 0.5 / 64, 2e-6);
    EXPECT_NEAR(at(1.0 / 64 + 1e-6), harmonic_32 + 0.5 / 64, 2e-6);
}

TEST(Equation4, IsEquation2ForWordsOfOneBit) {
    for (const setting s : {setting{1000, 500, 400}, setting{1000, 10, 10}, setting{64, 64, 64}}) {
        EXPECT_NEAR(mean_steps(s, 1) / mean_steps(s), 1, 1e-12);
    }
    EXPECT_DOUBLE_EQ(mean_steps({4, 2, 1}, 2), 1 / (1 - 0.25));
    EXPECT_DOUBLE_EQ(mean_steps({4, 2, 2}, 2), (1 / (1 - 0.25) + 1 / (1 - 0.5625)) / 2);
    EXPECT_DOUBLE_EQ(mean_steps({64, 64, 1}, 32), 1);
    // One page of 2^30 and 32 at a time: 2^25 steps and a half.
    EXPECT_NEAR(mean_steps({1 << 30, 1, 1}, 32), (1 << 25) + 31.0 / 64, 1e-3);
}

TEST(Equation5, IsEquation3ForWordsOfOneBit) {
    for (const setting s : {setting{1000, 500, 400}, setting{1000, 20, 10}}) {
        EXPECT_DOUBLE_EQ(worst_steps_bound(s, 1), worst_steps_bound(s));
    }
    // Two bits at a time, each free with 1/2: as one bit that is free with 3/4.
    EXPECT_NEAR(worst_steps_bound({100, 50, 0}, 2), worst_steps_bound({100, 75, 0}), 1e-9);
    EXPECT_TRUE(std::isinf(worst_steps_bound({100, 50, 50}, 32)));
}

TEST(ByWords, IsEquation4WhileFewPagesAreTakenOrFewAreFree) {
    for (const int width : {32, 64}) {
        EXPECT_NEAR(mean_steps_by_words({1 << 20, 10'000, 10}, width) / mean_steps({1 << 20, 10'000, 10}, width), 1,
                    1e-3);
        // A word has hardly ever two free pages: taking one of them is taking any.
        EXPECT_NEAR(mean_steps_by_words({1 << 24, 1000, 900}, width) / mean_steps({1 << 24, 1000, 900}, width), 1,
                    0.005);
    }
    EXPECT_NEAR(mean_steps_by_words({1 << 16, 1 << 12, 3 << 10}, 1) / mean_steps({1 << 16, 1 << 12, 3 << 10}), 1, 0.06)
        << "with words of one bit it is the basic walk, but for pages drawn twice";
    EXPECT_TRUE(std::isinf(mean_steps_by_words({100, 50, 50}, 32)));
}

TEST(ByWords, IsAboveEquations4And5) {
    const setting s{1 << 20, 104'857, 94'371};
    // Measured on the emulated device with 2^16 pages: 1.92.
    EXPECT_NEAR(mean_steps_by_words(s, 32), 1.92, 0.02);
    EXPECT_NEAR(mean_steps(s, 32), 1.42, 0.01);
    EXPECT_GT(worst_steps_bound_by_words(s, 32), worst_steps_bound(s, 32) * 1.5);
}

TEST(Theorem1, LacksATerm) {
    for (const int width : {32, 64}) {
        double before = 10;
        for (const std::uint64_t free : {1u << 16, 1u << 13, 1u << 10, 1u << 7}) {
            const setting s{1 << 20, free, free};
            const double ratio = theorem_1_ratio(s, width);
            EXPECT_GT(ratio, 1);
            EXPECT_LT(ratio, before) << "it comes nearer to 1 as U grows";
            before = ratio;
            EXPECT_LT(std::abs(theorem_1_ratio_corrected(s, width) - 1), (ratio - 1) / 2);
        }
        EXPECT_LT(before, 1.003);
        // T = 2^20, a tenth of it free and taken: U / w is 30 % of U' with words of 64 bits.
        EXPECT_GT(theorem_1_ratio({1 << 20, 104'857, 104'857}, width), 1.1);
    }
}

TEST(Theorem2, HoldsLongBeforeTheLimit) {
    for (const int width : {32, 64}) {
        for (const std::uint64_t left : {1u, 100u, 1000u}) {
            EXPECT_NEAR(theorem_2_ratio({1 << 20, 100'000, 100'000 - left}, width), 1, 1e-4) << left;
        }
        EXPECT_GT(std::abs(theorem_2_ratio({1 << 20, 1 << 19, 1 << 10}, width) - 1), 0.2) << "not far from it";
    }
}

}  // namespace
}  // namespace orchard::bench::random_walk
