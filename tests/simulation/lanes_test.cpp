// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes: they all run, know their positions, and converge in any way that is possible for a warp.

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <span>
#include <vector>

#include "tests/simulation/rig.hpp"

namespace orchard::simt::explore {
namespace {

TEST(Lanes, EachRunsOnceAndEnds) {
    with_seeds(40, {}, [](simulation& s) {
        word32 turns{0};
        std::vector<int> ran;
        s.add_kernel({{3, 2}, {4}}, [&](thread_position) {
            (void)turns.fetch_add<order::relaxed>(1);
            ran.push_back(static_cast<int>(s.self()));
        });
        ASSERT_TRUE(s.run()) << s.result().violation;
        EXPECT_EQ(newest(turns), 9u);
        EXPECT_EQ(std::set<int>(ran.begin(), ran.end()).size(), 9u);
        EXPECT_EQ(ran.size(), s.lanes().size());
    });
}

TEST(Lanes, KnowWhereTheyStand) {
    std::vector<thread_position> at;
    std::vector<int> ids;
    calm_simulation calm;
    calm.s.add_kernel({{3, 2}, {4}}, [&](thread_position given) {
        const thread_position p = position();
        EXPECT_EQ(p.thread, given.thread);
        at.push_back(p);
        ids.push_back(lane_id());
    });
    ASSERT_TRUE(calm.s.run());
    const std::array<std::uint32_t, 9> blocks{0, 0, 0, 0, 0, 1, 1, 1, 1};
    const std::array<std::uint32_t, 9> threads{0, 1, 2, 32, 33, 0, 1, 2, 3};
    ASSERT_EQ(at.size(), blocks.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
        EXPECT_EQ(at[i].block, blocks[i]);
        EXPECT_EQ(at[i].thread, threads[i]);
        EXPECT_EQ(at[i].threads_per_block, 64u);
        EXPECT_EQ(at[i].blocks, 2u);
        EXPECT_EQ(ids[i], static_cast<int>(threads[i] % 32));
    }
}

TEST(Lanes, AHostThreadIsAloneAndNoLane) {
    calm_simulation calm;
    calm.s.add_host("host", [&] {
        EXPECT_EQ(lane_id(), 0);
        EXPECT_EQ(position().blocks, 1u);
        EXPECT_EQ(converge(), 1u);
        EXPECT_EQ(ballot(1, true), 1u);
        EXPECT_EQ(shuffle(1, 7u, 0), 7u);
        EXPECT_EQ(match(1, 7u), 1u);
        EXPECT_EQ(reduce_add(1, 7), 7u);
        sync(1);
    });
    EXPECT_TRUE(calm.s.run()) << calm.s.result().violation;
    EXPECT_EQ(calm.s.result().lane_costs.collectives, 0u);
}

/// Each group is consistent: its lanes, and only those, got its mask.
void expect_consistent(const std::vector<lane_mask>& masks) {
    for (std::size_t l = 0; l < masks.size(); ++l) {
        EXPECT_NE(masks[l] >> l & 1, 0u) << "a lane is not in its own mask";
        for (std::size_t other = 0; other < masks.size(); ++other) {
            if ((masks[l] >> other & 1) != 0) {
                EXPECT_EQ(masks[other], masks[l]) << "the lanes of a mask got different masks";
            }
        }
    }
}

TEST(Converge, EverySubsetOfThreeLanesIsSeen) {
    std::set<lane_mask> seen;
    std::set<std::vector<lane_mask>> partitions;
    with_seeds(300, {}, [&](simulation& s) {
        std::vector<lane_mask> masks(3);
        s.add_kernel({{3}}, [&](thread_position at) { masks[at.thread] = converge(); });
        ASSERT_TRUE(s.run()) << s.result().violation;
        expect_consistent(masks);
        seen.insert(masks.begin(), masks.end());
        partitions.insert(masks);
    });
    EXPECT_EQ(seen, (std::set<lane_mask>{1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(partitions.size(), 5u) << "three lanes can be divided into groups in five ways";
}

TEST(Converge, ACalmRunGathersWhoWaitsThere) {
    std::vector<lane_mask> masks(4);
    calm_simulation calm;
    calm.s.add_kernel({{4}}, [&](thread_position at) {
        pause(at.thread == 3 ? 1000 : 1);
        masks[at.thread] = converge();
    });
    ASSERT_TRUE(calm.s.run());
    expect_consistent(masks);
    EXPECT_EQ(masks[3], 0x8u) << "a lane that comes later finds no other";
}

/// All lanes wait for all; of the waiting lanes, every second one stays behind.
class dividing_choices final : public choices {
protected:
    std::uint32_t pick(decision what, std::uint32_t) override {
        return what == decision::group || (what == decision::member && ++members_ % 2 == 1) ? 1 : 0;
    }
    std::uint32_t pick_actor(std::span<const actor_id>, bool) override { return 0; }

private:
    int members_ = 0;
};

TEST(Converge, SomeOfThoseThatWaitThereMayLeaveTogether) {
    dividing_choices dividing;
    simulation s(dividing, plain_settings());
    std::vector<lane_mask> masks(5);
    s.add_kernel({{5}}, [&](thread_position at) { masks[at.thread] = converge(); });
    ASSERT_TRUE(s.run());
    expect_consistent(masks);
    // The last lane to arrive leaves with every second one of the waiting lanes; then the next does the same.
    EXPECT_EQ(std::set<lane_mask>(masks.begin(), masks.end()), (std::set<lane_mask>{0x1a, 0x1, 0x4}));
}

TEST(Converge, LanesAtDifferentPlacesNeverMeet) {
    with_seeds(100, {}, [](simulation& s) {
        std::vector<lane_mask> masks(6);
        s.add_kernel({{6}}, [&](thread_position at) {
            if (at.thread % 2 == 0) {
                masks[at.thread] = converge();
            } else {
                masks[at.thread] = converge();
            }
        });
        ASSERT_TRUE(s.run()) << s.result().violation;
        expect_consistent(masks);
        for (std::size_t l = 0; l < masks.size(); ++l) {
            EXPECT_EQ(masks[l] & (l % 2 == 0 ? 0x2au : 0x15u), 0u);
        }
    });
}

TEST(Converge, WarpsNeverMeet) {
    with_seeds(50, {}, [](simulation& s) {
        s.add_kernel({{2, 3}, {1}}, [&](thread_position at) {
            const lane_mask there = at.block == 1 ? 0x1u : at.thread < 32 ? 0x3u : 0x7u;
            s.check((converge() & ~there) == 0, "lanes that are not there");
        });
        EXPECT_TRUE(s.run()) << s.result().violation;
    });
}

}  // namespace
}  // namespace orchard::simt::explore
