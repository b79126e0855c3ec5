// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Shapes of grids, through `launch` and at the same time.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "device/simt/launch.cuh"
#include "tests/simt/run_emulated.hpp"

namespace orchard::simt {

/// Counts each thread, and its index, into two words.
struct count_threads {
    device_word<std::uint64_t>* threads;
    device_word<std::uint64_t>* indices;

    ORCHARD_FN void operator()(thread_position at) const {
        threads->fetch_add<order::relaxed>(1);
        indices->fetch_add<order::relaxed>(at.global_thread());
    }
};

/// One atomic for each group, in the middle of a block whose last warp may be partial.
struct count_groups {
    device_word<std::uint64_t>* threads;
    device_word<std::uint64_t>* groups;

    ORCHARD_FN void operator()(thread_position) const {
        const lane_mask here = converge();
        if (rank_in(here) == 0) {
            threads->fetch_add<order::relaxed>(static_cast<std::uint64_t>(popcount(here)));
            groups->fetch_add<order::relaxed>(1);
        }
        sync(here);
    }
};

namespace {

struct totals {
    launch_result result;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
};

template <class Kernel>
totals run(grid shape, unsigned workers) {
    device_word<std::uint64_t> first{0};
    device_word<std::uint64_t> second{0};
    totals t{launch({device_kind::emulated, workers}, shape, Kernel{&first, &second})};
    t.first = first.load<order::relaxed>();
    t.second = second.load<order::relaxed>();
    return t;
}

class ShapesOfGrids : public testing::TestWithParam<grid> {};

TEST_P(ShapesOfGrids, EveryThreadRunsOnce) {
    const grid shape = GetParam();
    const std::uint64_t threads = std::uint64_t{shape.blocks} * shape.threads_per_block;
    for (const unsigned workers : {0u, 1u, 3u}) {
        const totals t = run<count_threads>(shape, workers);
        ASSERT_TRUE(t.result.ok) << t.result.error;
        EXPECT_EQ(t.first, threads);
        EXPECT_EQ(t.second, threads * (threads - 1) / 2);
        EXPECT_EQ(t.result.costs.device_atomics, 2 * threads);
    }
}

TEST_P(ShapesOfGrids, EveryWarpMeets) {
    const grid shape = GetParam();
    const totals t = run<count_groups>(shape, 2);
    ASSERT_TRUE(t.result.ok) << t.result.error;
    EXPECT_EQ(t.first, std::uint64_t{shape.blocks} * shape.threads_per_block);
    EXPECT_EQ(t.second, std::uint64_t{shape.blocks} * ((shape.threads_per_block + 31) / 32));
}

INSTANTIATE_TEST_SUITE_P(All, ShapesOfGrids,
                         testing::Values(grid{1, 1}, grid{100, 1}, grid{1, 31}, grid{3, 33}, grid{5, 100}, grid{2, 256},
                                         grid{1, 500}, grid{10'000, 32}),
                         [](const auto& p) {
                             return std::to_string(p.param.blocks) + "x" + std::to_string(p.param.threads_per_block);
                         });

TEST(Grid, TheLargestBlockMeetsInAllItsWarps) {
    const totals t = run<count_groups>({2, 1024}, 1);
    ASSERT_TRUE(t.result.ok) << t.result.error;
    EXPECT_EQ(t.first, 2048u);
    EXPECT_EQ(t.second, 64u);
}

/// More stacks than a process may map: fewer workers run the blocks.
TEST(Grid, AThousandWorkersRunEachBlockOnce) {
    const totals t = run<count_threads>({1000, 64}, 1000);
    ASSERT_TRUE(t.result.ok) << t.result.error;
    EXPECT_EQ(t.first, 64'000u);
}

TEST(Grid, ImpossibleShapesAreRefusedByTheirValue) {
    const auto nothing = [](thread_position) {};
    EXPECT_NE(run_emulated({0, 32}, nothing).error.find("0 blocks"), std::string::npos);
    EXPECT_NE(run_emulated({1, 0}, nothing).error.find("0 threads"), std::string::npos);
    EXPECT_NE(run_emulated({1, 1025}, nothing).error.find("1025 threads"), std::string::npos);
    EXPECT_NE(run_emulated({1, 1}, nothing, 5000).error.find("5000 workers"), std::string::npos);
    EXPECT_FALSE(run_emulated({0, 32}, nothing).ok);
}

TEST(Grid, AKernelCannotLaunch) {
    std::string error;
    const auto result = run_emulated({1, 1}, [&](thread_position) {
        error = run_emulated({1, 1}, [](thread_position) {}).error;
    });
    EXPECT_TRUE(result.ok);
    EXPECT_NE(error.find("cannot launch"), std::string::npos);
}

TEST(Grid, LaunchesOfTwoHostThreadsRunBesideEachOther) {
    std::vector<totals> results(2);
    std::vector<std::thread> threads;
    for (totals& mine : results) {
        threads.emplace_back([&mine] {
            for (int i = 0; i < 20; ++i) {
                mine = run<count_groups>({50, 96}, 2);
                if (!mine.result.ok || mine.first != 4800 || mine.second != 150) {
                    return;
                }
            }
        });
    }
    for (std::thread& t : threads) {
        t.join();
    }
    for (const totals& t : results) {
        EXPECT_TRUE(t.result.ok) << t.result.error;
        EXPECT_EQ(t.first, 4800u);
        EXPECT_EQ(t.second, 150u);
    }
}

TEST(Grid, PreloadHasNothingToDo) { EXPECT_TRUE(preload<count_threads>(executor{}).ok); }

}  // namespace
}  // namespace orchard::simt
