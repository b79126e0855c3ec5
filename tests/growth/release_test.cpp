// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Extents that are released, and addresses that are committed again.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "host/growth.hpp"
#include "tests/support/fake_backing.hpp"

namespace orchard {
namespace {

using rig::fake_backing;

segment_run run_at(std::uint32_t first, std::uint32_t count) { return {segment_index{first}, count}; }
extent extent_at(std::uint32_t first, std::uint32_t count) { return {run_at(first, count), memory_tier::device}; }

class GrowthRelease : public ::testing::Test {
protected:
    /// Commits until `segments` were, and takes the extents up.
    std::vector<extent> commit(std::uint32_t segments) {
        std::vector<extent> all;
        grower_.want(segments);
        while (grower_.step()) {
            while (const auto e = grower_.line().ready.pop()) {
                all.push_back(*e);
            }
        }
        return all;
    }

    fake_backing memory_{90};
    growth grower_{memory_, 8};
};

TEST_F(GrowthRelease, TakesBackWhatWasGivenUp) {
    EXPECT_EQ(commit(24), (std::vector{extent_at(0, 8), extent_at(8, 8), extent_at(16, 8)}));
    EXPECT_TRUE(grower_.release(extent_at(8, 8)));
    EXPECT_TRUE(grower_.step());
    EXPECT_FALSE(grower_.step());
    EXPECT_EQ(memory_.commits(), (std::vector{run_at(0, 8), run_at(16, 8)}));
    EXPECT_EQ(grower_.line().decommitted.load<simt::order::acquire>(), 8u);
}

TEST_F(GrowthRelease, CommitsTheLowestAddressesThatHaveNone) {
    commit(32);
    EXPECT_TRUE(grower_.release(extent_at(8, 8)));
    EXPECT_TRUE(grower_.release(extent_at(0, 8)));
    EXPECT_TRUE(grower_.step());
    EXPECT_EQ(commit(32 + 24), (std::vector{extent_at(0, 8), extent_at(8, 8), extent_at(32, 8)}))
        << "the two lie side by side, and are committed as any addresses are";
}

TEST_F(GrowthRelease, WhatCannotBeTakenBackGoesBackToTheService) {
    commit(8);
    EXPECT_TRUE(grower_.release(extent_at(3, 2)));  // never committed so
    EXPECT_TRUE(grower_.step());
    EXPECT_EQ(grower_.line().ready.pop(), extent_at(3, 2));
    EXPECT_EQ(grower_.line().taken_again.load<simt::order::acquire>(), 2u);
    EXPECT_EQ(grower_.last_error().message(), "it was not committed so");
}

TEST_F(GrowthRelease, LooksForAGapWithRoomForWhatIsWantedInOnePiece) {
    fake_backing memory(100);
    growth g(memory, 2);
    g.want(6);
    while (g.step()) {
    }
    EXPECT_TRUE(g.release(extent_at(2, 2)));
    EXPECT_TRUE(g.step());
    g.line().longest.store<simt::order::relaxed>(4);
    g.want(6 + 4);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), (std::vector{run_at(0, 2), run_at(4, 2), run_at(6, 2), run_at(8, 2)}));
    g.line().longest.store<simt::order::relaxed>(0);
    g.want(6 + 4 + 2);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits().back(), run_at(2, 2)) << "the lowest, where one piece is as good as another";
}

TEST(GrowthFences, LieInFrontOfEachExtentAndComeBackWithIt) {
    fake_backing memory(30);
    growth g(memory, 4);
    g.limit(20);
    g.fence_extents();
    g.want(12);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), (std::vector{run_at(1, 4), run_at(6, 4), run_at(11, 4)}));
    EXPECT_TRUE(g.release(extent_at(1, 4)));
    EXPECT_TRUE(g.release(extent_at(6, 4)));
    EXPECT_TRUE(g.step());
    g.want(12 + 8);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), (std::vector{run_at(11, 4), run_at(1, 4), run_at(6, 4)}));
}

TEST(GrowthFences, DoNotDivideARunThatIsNeededInOnePiece) {
    fake_backing memory(40);
    growth g(memory, 2);
    g.limit(20);
    g.fence_extents();
    g.line().longest.store<simt::order::relaxed>(5);
    g.want(6);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), (std::vector{run_at(1, 2), run_at(3, 2), run_at(5, 2)}));
}

/// The gap [5, 8) is too short for two fences, so that the extent comes to lie behind all others.
TEST(GrowthFences, LieOnBothSidesOfAnExtentOfItsOwn) {
    fake_backing memory(100);
    growth g(memory, 4);
    g.limit(40);
    g.fence_extents();
    g.want(12);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), (std::vector{run_at(1, 4), run_at(6, 4), run_at(11, 4)}));
    EXPECT_TRUE(g.release(extent_at(6, 4)));
    EXPECT_TRUE(g.step());
    g.want_apart(5);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits().back(), run_at(16, 5)) << "the gap [5, 10) has no room for two fences";
    EXPECT_EQ(g.line().apart.load<simt::order::acquire>(), 0u);
    EXPECT_EQ(g.line().apart_at.load<simt::order::acquire>(), 16u);
    g.want(12 + 5 + 8);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), (std::vector{run_at(1, 4), run_at(11, 4), run_at(16, 5), run_at(6, 4), run_at(22, 4)}));
    EXPECT_TRUE(g.release(extent_at(16, 5)));
    EXPECT_TRUE(g.step());
    g.want_apart(4);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits().back(), run_at(16, 4)) << "the fences of the extent before came back with it";
}

TEST(GrowthFences, LeaveRoomForAllThatTheBudgetsAllow) {
    for (const std::uint32_t allowed : {17u, 20u}) {
        fake_backing memory(20);
        growth g(memory, 1);
        g.limit(allowed);
        g.fence_extents();
        g.want(allowed);
        while (g.step()) {
        }
        EXPECT_EQ(memory.commits().size(), allowed);
        EXPECT_EQ(memory.commits().front(), run_at(allowed == 20 ? 0 : 1, 1));
    }
}

/// As many addresses as twice the budgets: the fences leave one, so that a request beyond the budgets is refused, and
/// does not wait for addresses.
TEST(GrowthFences, DoNotHideThatTheBudgetsAreSpent) {
    fake_backing memory(20);
    memory.give_in_all(10);
    growth g(memory, 1);
    g.limit(10);
    g.fence_extents();
    g.want(11);
    while (g.step()) {
    }
    EXPECT_EQ(g.line().committed.load<simt::order::relaxed>(), 10u);
    EXPECT_EQ(g.line().failures.load<simt::order::relaxed>(), 1u);
}

TEST(GrowthFences, OfACommitThatFailedAreNotLost) {
    fake_backing memory(20);
    growth g(memory, 4);
    g.limit(10);
    g.fence_extents();
    memory.end_with(absl::ResourceExhaustedError("no memory"));
    g.want(4);
    while (g.step()) {
    }
    memory.end_with(absl::OkStatus());
    g.want(4);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), std::vector{run_at(1, 4)});
}

TEST_F(GrowthRelease, ComesBeforeACommitThatNeedsItsBudget) {
    memory_.give_in_all(8);
    commit(8);
    grower_.want(16);
    EXPECT_TRUE(grower_.release(extent_at(0, 8)));
    while (grower_.step()) {
    }
    EXPECT_EQ(grower_.line().failures.load<simt::order::relaxed>(), 0u) << "it was tried before the memory was back";
    EXPECT_EQ(grower_.line().committed.load<simt::order::relaxed>(), 16u);
    EXPECT_EQ(memory_.commits(), std::vector{run_at(0, 8)});
}

TEST_F(GrowthRelease, WhatIsGivenUpAfterAFailureOfTheBudgetsMakesItPassed) {
    memory_.give_in_all(8);
    commit(8);
    grower_.want(16);
    EXPECT_TRUE(grower_.step());
    EXPECT_TRUE(grower_.is_spent());
    EXPECT_TRUE(grower_.has_failed());
    EXPECT_TRUE(grower_.release(extent_at(0, 8)));
    EXPECT_FALSE(grower_.is_spent()) << "though it is not yet back";
    EXPECT_FALSE(grower_.has_failed());
}

TEST_F(GrowthRelease, SaysWhatIsBeingCommitted) {
    memory_.hold();
    grower_.start();
    grower_.want(8);
    memory_.wait_until_entered(1);
    EXPECT_EQ(grower_.line().begun.load<simt::order::acquire>(), 8u);
    EXPECT_EQ(grower_.line().committed.load<simt::order::acquire>(), 0u);
    memory_.end_with(absl::InternalError("no"));
    memory_.let_go();
    while (grower_.line().failures.load<simt::order::acquire>() == 0) {
        std::this_thread::yield();
    }
    grower_.stop();
    EXPECT_EQ(grower_.line().begun.load<simt::order::acquire>(), 0u);
}

TEST_F(GrowthRelease, TakesNoMoreThanTheRingHolds) {
    for (std::uint32_t i = 0; i < run_ring::capacity; ++i) {
        EXPECT_TRUE(grower_.release(extent_at(i, 1)));
    }
    EXPECT_FALSE(grower_.release(extent_at(60, 1)));
}

TEST(GrowthSizes, AsMuchAsIsWantedWithinTheirLimits) {
    fake_backing memory(2000);
    growth g(memory, {4, 64});
    std::uint64_t wanted = 0;
    for (const auto& [more, committed] : {std::pair{1u, 4u}, {5u, 5u}, {64u, 64u}, {100u, 64u}}) {
        g.want(wanted + more);
        EXPECT_TRUE(g.step());
        EXPECT_EQ(g.line().ready.pop()->run.count, committed);
        wanted += committed;
    }
}

TEST(GrowthSizes, AnEighthOfWhatTheDeviceHasFreeAheadOfDemand) {
    fake_backing memory(2000);
    growth g(memory, {4, 1000});
    memory.say_free(80);
    g.want_ahead(100);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(memory.commits(), std::vector{run_at(0, 10)});
    memory.say_free(8);
    g.want(60);
    EXPECT_TRUE(g.step()) << "what is needed";
    EXPECT_EQ(memory.commits().back(), run_at(10, 50));
    memory.say_free(7);
    g.want_ahead(100);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(memory.commits().size(), 2u) << "too little is free to commit any ahead";
    EXPECT_TRUE(g.has_failed());
    EXPECT_FALSE(g.step()) << "it is not tried again and again";
    g.want(61);
    EXPECT_TRUE(g.step()) << "a request waits for it";
    EXPECT_EQ(memory.commits().back(), run_at(60, 1));
}

TEST(GrowthSizes, TwoHeapsThatSeeTheSameFreeMemoryLeaveEachOtherSome) {
    constexpr std::uint32_t all = 1000;
    fake_backing first(2000);
    fake_backing second(2000);
    growth a(first, {4, 1000});
    growth b(second, {4, 1000});
    // Both read the free memory before either commits.
    first.say_free(all);
    second.say_free(all);
    a.want_ahead(2000);
    b.want_ahead(2000);
    EXPECT_TRUE(a.step());
    EXPECT_TRUE(b.step());
    EXPECT_LE(first.commits().front().count + second.commits().front().count, all / 4);
}

TEST(GrowthSizes, AsMuchAsIsMissingIsCommittedAtOnce) {
    fake_backing memory(2000);
    growth g(memory, {4, 64});
    g.want(40);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(memory.commits(), std::vector{run_at(0, 40)});
}

TEST(GrowthSizes, WhereTheMachineHasNotSoMuchLessIsCommitted) {
    fake_backing memory(2000);
    memory.give_at_most(5);
    growth g(memory, {32, 64});
    g.want(12);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), (std::vector{run_at(0, 4), run_at(4, 4), run_at(8, 4)}));
    memory.give_at_most(0);
    g.want(13);
    EXPECT_TRUE(g.step());
    EXPECT_FALSE(g.step());
    EXPECT_EQ(static_cast<failure_reason>(g.line().failed.load<simt::order::acquire>()), failure_reason::commit_failed);
}

// Memory that was wanted when a commit failed is not committed later, if less is wanted then.
TEST(GrowthSizes, AfterAFailureAsMuchIsCommittedAsIsWantedThen) {
    fake_backing memory(2000);
    memory.give_at_most(0);
    growth g(memory, {2, 64});
    g.want(1000);
    EXPECT_TRUE(g.step());
    memory.give_at_most(1000);
    g.want(3);
    while (g.step()) {
    }
    EXPECT_EQ(memory.commits(), std::vector{run_at(0, 3)});
}

// The backing's budget has room for only 20 more segments: these are committed, and then no more.
TEST(GrowthSizes, WhatIsLeftOfABudgetIsUsed) {
    fake_backing memory(100);
    memory.give_in_all(20);
    growth g(memory, 16);
    g.want(40);
    EXPECT_TRUE(g.step());
    EXPECT_TRUE(g.step());
    EXPECT_EQ(memory.commits(), (std::vector{run_at(0, 16), run_at(16, 4)}));
}

TEST(GrowthPreparation, ComesBeforeTheCommitAndMayFail) {
    fake_backing memory(100);
    std::vector<segment_run> prepared;
    absl::Status answer;
    growth g(memory, 8, [&](segment_run run) {
        EXPECT_TRUE(memory.commits().empty());
        prepared.push_back(run);
        return answer;
    });
    answer = absl::ResourceExhaustedError("no room for metadata");
    g.want(8);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(memory.entered(), 0u);
    EXPECT_EQ(g.last_error().message(), "no room for metadata");
    EXPECT_EQ(static_cast<failure_reason>(g.line().failed.load<simt::order::acquire>()), failure_reason::commit_failed);
    answer = absl::OkStatus();
    g.want(8);
    EXPECT_TRUE(g.step());
    EXPECT_EQ(prepared, (std::vector{run_at(0, 8), run_at(0, 4), run_at(0, 2), run_at(0, 1), run_at(0, 8)}));
    EXPECT_EQ(memory.commits(), std::vector{run_at(0, 8)});
}

TEST(GrowthPreparation, WhereThereIsNotEnoughForAllLessIsCommitted) {
    fake_backing memory(100);
    growth g(memory, 8, [&](segment_run run) {
        return run.count > 4 ? absl::ResourceExhaustedError("no room for metadata") : absl::OkStatus();
    });
    g.want(8);
    EXPECT_TRUE(g.step());
    EXPECT_TRUE(g.step());
    EXPECT_EQ(memory.commits(), (std::vector{run_at(0, 4), run_at(4, 4)}));
}

TEST(RunRing, KeepsTheOrderBetweenTwoThreads) {
    run_ring ring;
    constexpr std::uint32_t count = 20'000;
    std::thread writer([&] {
        for (std::uint32_t i = 0; i < count; ++i) {
            while (!ring.push({run_at(i, i + 1), i % 3 == 0 ? memory_tier::host : memory_tier::device})) {
                std::this_thread::yield();
            }
        }
    });
    for (std::uint32_t i = 0; i < count;) {
        if (const auto e = ring.pop()) {
            ASSERT_EQ(e->run, run_at(i, i + 1));
            ASSERT_EQ(e->tier, i % 3 == 0 ? memory_tier::host : memory_tier::device);
            ++i;
        }
    }
    writer.join();
    EXPECT_FALSE(ring.pop().has_value());
}

}  // namespace
}  // namespace orchard
