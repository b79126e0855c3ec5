// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The number of steps, compared with the paper's equations: fixed seeds, so that each run gives the same numbers.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "profiling/bench/random_walk_theory.hpp"
#include "tests/random_walk/algorithms.hpp"

namespace orchard {
namespace {

using namespace rig;
namespace theory = bench::random_walk;

constexpr std::uint32_t pages = 1 << 16;
constexpr std::uint32_t no_bound = 1u << 30;

/// Means over all runs.
struct measured {
    double tas = 0;
    double was = 0;
    double losses = 0;  ///< over all threads of a run
};

/// As many runs as about 16,000 threads require; each with other free pages.
template <class Algorithm>
measured measure(std::uint32_t free, std::uint32_t threads) {
    const int runs = static_cast<int>(16'000 / threads) + 1;
    double steps = 0;
    double worst = 0;
    double losses = 0;
    for (int run = 0; run < runs; ++run) {
        pool_memory<typename Algorithm::word> memory(pages, 1);
        memory.leave_free(free, static_cast<std::uint64_t>(run) + 1);
        const taken_pages taken =
            take<Algorithm>(memory, threads, static_cast<std::uint64_t>(run) + 1000, 1, no_bound, 256);
        EXPECT_EQ(different_pages(taken.got, pages), threads);
        for (std::uint32_t warp = 0; warp < threads / 32; ++warp) {
            std::uint32_t most = 0;
            for (std::uint32_t t = warp * 32; t < warp * 32 + 32; ++t) {
                most = std::max(most, taken.counts[t].steps);
                steps += taken.counts[t].steps;
                losses += taken.counts[t].losses;
            }
            worst += most;
        }
    }
    return {steps / runs / threads, worst / runs / (threads / 32), losses / runs};
}

/// Free pages and threads, a multiple of 32, with that part of the free pages taken.
theory::setting setting_of(double free_share, double part) {
    const auto free = static_cast<std::uint64_t>(pages * free_share);
    return {pages, free, static_cast<std::uint64_t>(static_cast<double>(free) * part) / 32 * 32};
}

template <class Algorithm>
measured measure(const theory::setting& s) {
    return measure<Algorithm>(static_cast<std::uint32_t>(s.free), static_cast<std::uint32_t>(s.threads));
}

class Steps : public ::testing::TestWithParam<std::pair<double, double>> {
protected:
    theory::setting s_ = setting_of(GetParam().first, GetParam().second);
};

// With 16,000 threads, the mean of the basic walk's steps is known to about 1 %, because its spread is about its mean.
constexpr double near = 0.035;

TEST_P(Steps, OfTheBasicWalkAreThoseOfEquations2And3) {
    const measured m = measure<algorithm<page_policy::rw, std::uint64_t>>(s_);
    EXPECT_NEAR(m.tas / theory::mean_steps(s_), 1, near);
    EXPECT_GT(m.was, m.tas);
    EXPECT_LT(m.was, theory::worst_steps_bound(s_));
}

template <class Algorithm>
void expect_by_words(const theory::setting& s, int width) {
    const measured m = measure<Algorithm>(s);
    EXPECT_NEAR(m.tas / theory::mean_steps_by_words(s, width), 1, near);
    EXPECT_GE(m.tas / theory::mean_steps(s, width), 1 - near) << "equation (4) is never above what is measured";
    if (s.threads * 4 <= s.free) {
        // While many of the free pages are left, equation (4) itself holds.
        EXPECT_NEAR(m.tas / theory::mean_steps(s, width), 1, 0.06);
    }
    EXPECT_LT(m.was, theory::worst_steps_bound_by_words(s, width) * (1 + near));
}

TEST_P(Steps, OfTheWalkByWordsOf32AreThoseOfEquations4And5) {
    expect_by_words<algorithm<page_policy::rw_bm32, std::uint32_t>>(s_, 32);
}
TEST_P(Steps, OfTheWalkByHalvesOfWordsToo) { expect_by_words<algorithm<page_policy::rw_bm32, std::uint64_t>>(s_, 32); }
TEST_P(Steps, OfTheWalkByWordsOf64AreThoseOfEquations4And5) {
    expect_by_words<algorithm<page_policy::rw_bm64, std::uint64_t>>(s_, 64);
}

TEST_P(Steps, OfTheCollaborativeWalkAreTheSameForAllLanesOfAWarp) {
    const measured plain = measure<algorithm<page_policy::corw, std::uint32_t>>(s_);
    const measured locked = measure<algorithm<page_policy::corw_locked, std::uint32_t>>(s_);
    EXPECT_DOUBLE_EQ(plain.tas, plain.was);
    EXPECT_DOUBLE_EQ(locked.tas, locked.was);
    const measured alone = measure<algorithm<page_policy::rw_bm32, std::uint32_t>>(s_);
    EXPECT_LE(locked.was, alone.was) << "sharing brings a warp's slowest lane nearer to its mean";
    EXPECT_EQ(locked.losses, 0) << "a claim under lock loses nothing";
    if (s_.free * 10 <= s_.pages + 10) {
        // If many pages are free, most of the cost is caused by two lanes that plan for the same page without a lock.
        EXPECT_LT(plain.was, alone.was);
    }
}

// Shares of free pages, and how much of them is taken.
INSTANTIATE_TEST_SUITE_P(Shares, Steps,
                         ::testing::Values(std::pair{0.5, 0.1}, std::pair{0.5, 0.5}, std::pair{0.5, 0.9},
                                           std::pair{0.1, 0.25}, std::pair{0.1, 0.5}, std::pair{0.1, 0.9},
                                           std::pair{0.01, 0.2}, std::pair{0.01, 0.5}, std::pair{0.01, 0.8}));

}  // namespace
}  // namespace orchard
