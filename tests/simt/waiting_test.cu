// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Waiting through `pause`: for another lane, warp, block and host thread.

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "tests/simt/run_emulated.hpp"

namespace orchard::simt {
namespace {

using word = device_word<std::uint32_t>;

void wait_until(const word& w, std::uint32_t value) {
    while (w.load<order::acquire>() != value) {
        pause(100);
    }
}

TEST(Waiting, ForALaneOfTheSameWarp) {
    word turn{31};
    const auto result = run_emulated({1, 32}, [&](thread_position at) {
        wait_until(turn, at.thread);  // lanes proceed in reverse order
        turn.store<order::release>(at.thread - 1);
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(turn.load<order::relaxed>(), 0xffffffffu);
    EXPECT_GT(result.costs.pauses, 31u);
}

TEST(Waiting, ForAnotherWarpWithACollectiveInTheLoop) {
    word flag{0};
    const auto result = run_emulated({1, 64}, [&](thread_position at) {
        if (at.thread >= warp_size) {
            for (int i = 0; i < 10; ++i) {
                pause(10);
            }
            flag.store<order::release>(1);
            return;
        }
        const lane_mask here = converge();
        while (ballot(here, flag.load<order::acquire>() == 0) != 0) {
            pause(100);
        }
    });
    EXPECT_TRUE(result.ok) << result.error;
}

TEST(Waiting, BetweenTwoBlocksBothWays) {
    word ball{0};
    const auto result = run_emulated(
        {2, 32},
        [&](thread_position at) {
            for (std::uint32_t i = 0; i < 20; ++i) {
                if (lane_id() == 0) {
                    wait_until(ball, 2 * i + at.block);
                }
                sync(converge());
                if (lane_id() == 0) {
                    ball.store<order::release>(2 * i + at.block + 1);
                }
            }
        },
        2);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(ball.load<order::relaxed>(), 40u);
}

TEST(Waiting, ForAHostThreadAndBack) {
    host_word<std::uint64_t> asked{0};
    device_word<std::uint64_t> answered{0};
    constexpr std::uint64_t rounds = 200;
    std::thread service([&] {
        for (std::uint64_t i = 1; i <= rounds; ++i) {
            while (asked.load<order::acquire>() != i) {
                pause(0);
            }
            answered.store<order::release>(i);
        }
    });
    const auto result = run_emulated(
        {1, 1},
        [&](thread_position) {
            for (std::uint64_t i = 1; i <= rounds; ++i) {
                asked.store<order::release>(i);
                while (answered.load<order::acquire>() != i) {
                    pause(50);
                }
            }
        },
        1);
    service.join();
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(result.costs.host_words_written, rounds);
}

TEST(Waiting, ForASlowHostThread) {
    word flag{0};
    std::thread service([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // long enough for workers to sleep
        flag.store<order::release>(1);
    });
    const auto result = run_emulated({4, 64}, [&](thread_position) { wait_until(flag, 1); });
    service.join();
    EXPECT_TRUE(result.ok) << result.error;
}

}  // namespace
}  // namespace orchard::simt
