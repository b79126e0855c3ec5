// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The commits of growth, their order, and the handling of errors; with and without the thread of growth.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "host/growth.hpp"
#include "tests/support/fake_backing.hpp"

namespace orchard {
namespace {

using rig::fake_backing;

segment_run run_at(std::uint32_t first, std::uint32_t count) { return {segment_index{first}, count}; }

/// Reads growth's results as the service does, because growth continues only while it has room for results.
void take_up(growth& g) {
    const bool was_full = g.line().ready.is_full();
    while (g.line().ready.pop()) {
    }
    if (was_full) {
        g.wake();
    }
    std::this_thread::yield();
}

TEST(Growth, CommitsWholeExtentsLowestFirst) {
    fake_backing memory(100);
    growth g(memory, 8);
    EXPECT_FALSE(g.step()) << "nothing is wanted";
    g.want(9);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(), 8u);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(), 16u);
    EXPECT_FALSE(g.step());
    EXPECT_EQ(memory.commits(), (std::vector{run_at(0, 8), run_at(8, 8)}));
}

TEST(Growth, WantsOnlyGrow) {
    fake_backing memory(100);
    growth g(memory, 10);
    g.want(20);
    g.want(5);
    EXPECT_TRUE(g.step());
    EXPECT_TRUE(g.step());
    EXPECT_FALSE(g.step());
    g.want(20);
    EXPECT_FALSE(g.step());
}

TEST(Growth, EndsAtTheEndOfTheRange) {
    fake_backing memory(20);
    growth g(memory, 8);
    g.want(1000);
    while (g.step()) {
    }
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(), 20u);
    EXPECT_EQ(memory.commits(), (std::vector{run_at(0, 8), run_at(8, 8), run_at(16, 4)}));
}

TEST(Growth, StartsFromWhatTheBackingHasCommitted) {
    fake_backing memory(200, 100);
    growth g(memory, 64);
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(), 100u);
    EXPECT_EQ(g.line().ready.pop(), (extent{run_at(0, 100), memory_tier::device}));
    EXPECT_FALSE(g.step());
    g.want(101);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(memory.commits(), std::vector{run_at(100, 64)});
}

TEST(Growth, AFailedCommitIsKeptAndNotTriedAgainByItself) {
    fake_backing memory(100);
    growth g(memory, 8);
    EXPECT_TRUE(g.last_error().ok());
    memory.end_with(absl::ResourceExhaustedError("cannot commit 16777216 bytes"));
    g.want(8);
    EXPECT_TRUE(g.step());
    EXPECT_FALSE(g.step());
    EXPECT_EQ(static_cast<failure_reason>(g.line().failed.load<simt::order::acquire>()), failure_reason::commit_failed);
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(), 0u);
    EXPECT_EQ(g.last_error(), absl::ResourceExhaustedError("cannot commit 16777216 bytes"));
    EXPECT_EQ(memory.entered(), 4u) << "for 8 segments, 4, 2 and 1";
}

TEST(Growth, AFailedCommitIsTriedAgainWhenItIsWantedAgain) {
    fake_backing memory(100);
    growth g(memory, 8);
    memory.end_with(absl::ResourceExhaustedError("not now"));
    g.want(8);
    EXPECT_TRUE(g.step());
    memory.end_with(absl::OkStatus());
    g.want(8);
    EXPECT_EQ(g.line().failed.load<simt::order::acquire>(), 0u);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(), 8u);
    EXPECT_EQ(memory.commits(), std::vector{run_at(0, 8)});
}

TEST(Growth, HasNoMoreSegmentsThanARequestCanName) {
    fake_backing memory(max_segments);
    growth g(memory, 8);
    EXPECT_EQ(g.line().segments, max_segments - 1);
    g.limit(max_segments);
    EXPECT_EQ(g.line().most, max_segments - 1);
}

TEST(GrowthThread, CommitsWhatIsWanted) {
    fake_backing memory(500);
    growth g(memory, 8);
    g.start();
    for (std::uint32_t wanted = 50; wanted <= 500; wanted += 50) {
        g.want(wanted);
        while (g.line().committed.load<simt::order::acquire>() < wanted) {
            take_up(g);
        }
    }
    g.stop();
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(), 500u);
}

TEST(GrowthThread, TakesUpWhatWasWantedBeforeItStarted) {
    fake_backing memory(100);
    growth g(memory, 8);
    g.want(8);
    g.start();
    while (g.line().committed.load<simt::order::acquire>() < 8) {
        std::this_thread::yield();
    }
}

TEST(GrowthThread, StopsAfterTheCommitUnderWay) {
    fake_backing memory(100);
    memory.hold();
    growth g(memory, 8);
    g.start();
    g.want(100);
    memory.wait_until_entered(1);
    std::thread releasing([&] { memory.let_go(); });
    g.stop();
    releasing.join();
    EXPECT_GE(g.line().committed.load<simt::order::acquire>(), 8u);
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(),
              memory.commits().size() == 13 ? 100u : 8 * memory.commits().size());
    g.stop();
}

TEST(GrowthThread, WantingDoesNotWaitForACommitUnderWay) {
    fake_backing memory(100);
    memory.hold();
    growth g(memory, 8);
    g.start();
    g.want(1);
    memory.wait_until_entered(1);
    for (std::uint32_t wanted = 1; wanted <= 100; ++wanted) {
        g.want(wanted);
    }
    EXPECT_EQ(g.line().committed.load<simt::order::acquire>(), 0u);
    memory.let_go();
    while (g.line().committed.load<simt::order::acquire>() < 100) {
        std::this_thread::yield();
    }
}

TEST(GrowthThread, EndsWithItsOwnerWhetherStartedOrNot) {
    fake_backing memory(100);
    { growth never_started(memory, 8); }
    {
        growth idle(memory, 8);
        idle.start();
    }
    EXPECT_EQ(memory.entered(), 0u);
}

}  // namespace
}  // namespace orchard
