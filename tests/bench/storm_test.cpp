// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench storm` at small scale: it ends with an error if anything is wrong. Also the meeting of its threads.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "profiling/bench/storm_meeting.hpp"
#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

TEST(bench_storm, shrinks_and_grows_and_leaves_nothing_behind) {
    const auto rows = run_quickly("storm");
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->size(), 1u);
    const auto& row = (*rows)[0];
    EXPECT_GE(row["allocations"], 3'000);
    EXPECT_EQ(row["mismatches"], 0);
    EXPECT_EQ(row["left_committed_mib"], 0);
    EXPECT_GT(row["handed_over"], 0);
    EXPECT_GT(row["launches"], 2);
    EXPECT_GE(row["ebbs"], 3);
    EXPECT_GT(row["least_growth_mib"], 0) << "nothing was committed between two ebbs";
    EXPECT_GT(row["released_before_end_mib"], 0) << "nothing was given back but in the end";
    EXPECT_GT(row["released_to_peak"], 0);
    const auto all = row["committed_in_all_mib"].get<std::uint64_t>();
    EXPECT_GT(all, row["peak_committed_mib"].get<std::uint64_t>()) << "it did not grow again";
    EXPECT_GE(all, row["released_before_end_mib"].get<std::uint64_t>());
    EXPECT_GE(row["released_before_end_mib"], row["released_beside_kernels_mib"]);
}

/// Threads that do something before each meeting.
class bench_storm_meeting : public ::testing::Test {
protected:
    static constexpr int members = 3;
    static constexpr int meetings = 200;

    /// Until `over`; then attends no more.
    void take_part(int member) {
        while (!over_.load(std::memory_order_relaxed)) {
            if (at_.is_called()) {
                ++done_[static_cast<std::size_t>(member)];
                at_.attend();
            }
            std::this_thread::yield();
        }
        at_.leave();
    }

    storm::meeting at_{members};
    std::vector<int> done_ = std::vector<int>(members);  ///< meetings that each came to
    std::atomic<bool> over_{false};
};

TEST_F(bench_storm_meeting, all_come_to_each_once) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < members; ++i) {
        threads.emplace_back([this, i] { take_part(i); });
    }
    for (int n = 1; n <= meetings; ++n) {
        at_.call();
        EXPECT_EQ(done_, std::vector<int>(members, n));
        at_.dismiss();
    }
    over_.store(true, std::memory_order_relaxed);
}

TEST_F(bench_storm_meeting, no_thread_waits_for_one_that_has_left) {
    std::vector<std::jthread> threads;
    for (int i = 1; i < members; ++i) {
        threads.emplace_back([this, i] { take_part(i); });
    }
    std::jthread last([this] {
        while (!at_.is_called()) {
            std::this_thread::yield();
        }
        at_.leave();
    });
    for (int n = 1; n <= meetings; ++n) {
        at_.call();
        EXPECT_EQ(done_, (std::vector<int>{0, n, n}));
        at_.dismiss();
    }
    over_.store(true, std::memory_order_relaxed);
}

}  // namespace
}  // namespace orchard::bench
