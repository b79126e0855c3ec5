// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes of one warp that diverge: the groups that `converge` forms, and that all lanes end.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "tests/simt/run_emulated.hpp"

namespace orchard::simt {
namespace {

template <class T>
using by_lane = std::array<T, warp_size>;

/// A device function that any lanes may call: returns the sum of the values of the lanes that call it together.
std::uint32_t sum_of_those_here(std::uint32_t value, lane_mask& group) {
    group = converge();
    return reduce_add(group, value);
}

TEST(Divergence, BranchesWaitForEachOtherAtTheSameCall) {
    by_lane<lane_mask> groups{};
    by_lane<std::uint32_t> sums{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        if (at.thread % 2 == 0) {
            sums[at.thread] = sum_of_those_here(1, groups[at.thread]);
        } else {
            sums[at.thread] = sum_of_those_here(10, groups[at.thread]);
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        EXPECT_EQ(groups[l], 0xffffffffu);
        EXPECT_EQ(sums[l], 16u * 11u);
    }
}

TEST(Divergence, DifferentSitesFormDifferentGroups) {
    by_lane<lane_mask> groups{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        if (at.thread < 10) {
            groups[at.thread] = converge();
        } else if (at.thread < 20) {
            groups[at.thread] = converge();
        } else {
            groups[at.thread] = lane_mask{1} << lane_id();  // never converges
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        EXPECT_EQ(groups[l], l < 10 ? 0x3ffu : l < 20 ? 0xffc00u : 1u << l) << l;
    }
}

TEST(Divergence, LanesThatLeaveEarlyAreNotWaitedFor) {
    by_lane<lane_mask> groups{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        if (at.thread % 4 == 1) {
            return;
        }
        groups[at.thread] = converge();
        if (at.thread % 4 == 2) {
            return;
        }
        groups[at.thread] = converge();
        sync(groups[at.thread]);
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        EXPECT_EQ(groups[l], l % 4 == 1 ? 0u : l % 4 == 2 ? 0xddddddddu : 0x99999999u) << l;
    }
}

TEST(Divergence, LoopsOfDifferentLengthShrinkTheGroup) {
    by_lane<std::vector<lane_mask>> groups;
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        for (std::uint32_t i = 0; i <= at.thread; ++i) {
            groups[at.thread].push_back(converge());
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (unsigned l = 0; l < warp_size; ++l) {
        ASSERT_EQ(groups[l].size(), l + 1);
        for (unsigned i = 0; i <= l; ++i) {
            EXPECT_EQ(groups[l][i], 0xffffffffu << i);
        }
    }
}

TEST(Divergence, APausingLaneDoesNotHoldBackTheOthers) {
    device_word<std::uint32_t> flag{0};
    by_lane<lane_mask> groups{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        if (at.thread == 3) {
            while (flag.load<order::acquire>() == 0) {
                pause(10);
            }
            return;
        }
        groups[at.thread] = converge();
        if (rank_in(groups[at.thread]) == 0) {
            flag.store<order::release>(1);
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(groups[0], 0xfffffff7u);
}

TEST(Divergence, LanesThatPauseTogetherConvergeTogether) {
    by_lane<lane_mask> groups{};
    const auto result = run_emulated({1, 64}, [&](thread_position at) {
        for (int i = 0; i < 5; ++i) {
            pause(10);
            const lane_mask group = converge();
            if (at.thread < warp_size) {
                groups[at.thread] |= ~group;
            }
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    for (const lane_mask missed : groups) {
        EXPECT_EQ(missed, 0u);
    }
}

TEST(Divergence, ACollectiveOfSomeLetsTheOthersConverge) {
    by_lane<lane_mask> groups{};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        if (at.thread == 0) {
            sync(0x3);  // lane 1 arrives only after the others have converged
            return;
        }
        groups[at.thread] = converge();
        if (at.thread == 1) {
            sync(0x3, {"elsewhere", 0});
        }
    });
    EXPECT_FALSE(result.ok);  // the two sites differ; but first the group was formed
    EXPECT_EQ(groups[31], 0xfffffffeu);
}

}  // namespace
}  // namespace orchard::simt
