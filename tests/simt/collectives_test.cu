// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The result of each collective, with full and partial masks, by lanes and by a host thread.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "device/simt/lane.cuh"
#include "tests/simt/run_emulated.hpp"

namespace orchard::simt {
namespace {

constexpr lane_mask full = 0xffffffffu;

/// The results of one warp, by lane.
template <class T>
using by_lane = std::array<T, warp_size>;

TEST(Collectives, ConvergeGathersTheWholeWarp) {
    by_lane<lane_mask> masks{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) { masks[at.thread] = converge(); });
    ASSERT_TRUE(result.ok) << result.error;
    for (const lane_mask m : masks) {
        EXPECT_EQ(m, full);
    }
}

TEST(Collectives, BallotGivesTheLanesWhosePredicateHolds) {
    by_lane<lane_mask> votes{};
    const auto result =
        run_emulated({1, 32}, [&](thread_position at) { votes[at.thread] = ballot(full, at.thread % 3 == 0); });
    ASSERT_TRUE(result.ok) << result.error;
    for (const lane_mask v : votes) {
        EXPECT_EQ(v, 0x49249249u);
    }
}

TEST(Collectives, PartialMasksMeetApart) {
    by_lane<lane_mask> votes{};
    by_lane<std::uint32_t> sums{};
    by_lane<std::uint32_t> greatest{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        const lane_mask mine = at.thread < 5 ? 0x0000001fu : at.thread % 2 == 0 ? 0x55555540u : 0xaaaaaaa0u;
        votes[at.thread] = ballot(mine, true);
        sums[at.thread] = reduce_add(mine, at.thread);
        greatest[at.thread] = reduce_max(mine, 100 - at.thread);
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        EXPECT_EQ(votes[l], l < 5 ? 0x1fu : l % 2 == 0 ? 0x55555540u : 0xaaaaaaa0u) << l;
        EXPECT_EQ(sums[l], l < 5 ? 10u : l % 2 == 0 ? 234u : 252u) << l;
        EXPECT_EQ(greatest[l], l < 5 ? 100u : l % 2 == 0 ? 94u : 95u) << l;
    }
}

TEST(Collectives, ReduceAddWrapsAtTwoToTheThirtyTwo) {
    by_lane<std::uint32_t> sums{};
    const auto result =
        run_emulated({1, 32}, [&](thread_position at) { sums[at.thread] = reduce_add(full, 0xffffffffu); });
    ASSERT_TRUE(result.ok) << result.error;
    for (const std::uint32_t s : sums) {
        EXPECT_EQ(s, 0xffffffe0u);
    }
}

TEST(Collectives, ReduceOrJoinsAllBits) {
    by_lane<std::uint32_t> joined{};
    const auto result = run_emulated(
        {1, 32}, [&](thread_position at) { joined[at.thread] = reduce_or(full, at.thread == 7 ? 0x80u : 0x1u); });
    ASSERT_TRUE(result.ok) << result.error;
    for (const std::uint32_t j : joined) {
        EXPECT_EQ(j, 0x81u);
    }
}

TEST(Collectives, ShuffleCarriesEveryBitOfEveryWidth) {
    by_lane<std::uint64_t> wide{};
    by_lane<std::int64_t> negative{};
    by_lane<std::int32_t> narrow{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        const int next = static_cast<int>((at.thread + 1) % warp_size);  // each lane reads from another
        wide[at.thread] = shuffle(full, 0xfedcba9876543210u + at.thread, next);
        negative[at.thread] = shuffle(full, -std::int64_t{at.thread} << 33, next);
        narrow[at.thread] = shuffle(full, -static_cast<std::int32_t>(at.thread), 31);
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        const unsigned next = (l + 1) % warp_size;
        EXPECT_EQ(wide[l], 0xfedcba9876543210u + next);
        EXPECT_EQ(negative[l], -std::int64_t{next} * (std::int64_t{1} << 33));
        EXPECT_EQ(narrow[l], -31);
    }
}

TEST(Collectives, MatchFindsTheLanesWithTheSameValue) {
    by_lane<lane_mask> groups{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        // Values that differ only above bit 32 are different.
        groups[at.thread] = match(full, (std::uint64_t{at.thread % 2} << 40) | 7u);
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        EXPECT_EQ(groups[l], l % 2 == 0 ? 0x55555555u : 0xaaaaaaaau);
    }
}

TEST(Collectives, SyncOrdersWhatTheLanesWroteBefore) {
    by_lane<std::uint32_t> written{};
    by_lane<std::uint32_t> read{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        written[at.thread] = at.thread + 1;
        sync(full);
        read[at.thread] = written[warp_size - 1 - at.thread];
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        EXPECT_EQ(read[l], warp_size - l);
    }
}

TEST(Collectives, ALaneAloneMeetsItself) {
    by_lane<std::uint32_t> sums{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        const lane_mask own = lane_mask{1} << lane_id();
        sync(own);
        sums[at.thread] = reduce_add(own, at.thread) + (ballot(own, true) == own ? 100 : 0);
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        EXPECT_EQ(sums[l], l + 100);
    }
}

TEST(Collectives, RanksAndLeadersFollowTheMask) {
    by_lane<int> ranks{};
    by_lane<int> leaders{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        const lane_mask same = match(full, at.thread % 4);
        ranks[at.thread] = rank_in(same);
        leaders[at.thread] = leader_of(same);
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (int l = 0; l < warp_size; ++l) {
        EXPECT_EQ(ranks[static_cast<unsigned>(l)], l / 4);
        EXPECT_EQ(leaders[static_cast<unsigned>(l)], l % 4);
    }
}

TEST(Collectives, AHostThreadIsAWarpOfOneLane) {
    EXPECT_EQ(lane_id(), 0);
    EXPECT_EQ(converge(), 1u);
    EXPECT_EQ(ballot(1, true), 1u);
    EXPECT_EQ(ballot(1, false), 0u);
    EXPECT_EQ(shuffle(1, std::int64_t{-5}, 0), -5);
    EXPECT_EQ(match(1, 9u), 1u);
    EXPECT_EQ(reduce_add(1, 11), 11u);
    EXPECT_EQ(reduce_or(1, 12), 12u);
    EXPECT_EQ(reduce_max(1, 13), 13u);
    sync(1);
    pause(0);
    const thread_position at = position();
    EXPECT_EQ(at.block, 0u);
    EXPECT_EQ(at.thread, 0u);
    EXPECT_EQ(at.threads_per_block, 1u);
    EXPECT_EQ(at.blocks, 1u);
    const std::uint64_t before = clock_ns();
    EXPECT_LE(before, clock_ns());
}

}  // namespace
}  // namespace orchard::simt
