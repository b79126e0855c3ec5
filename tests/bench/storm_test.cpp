// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench storm` in small: it ends with an error where anything is wrong.

#include <gtest/gtest.h>

#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

TEST(bench_storm, leaves_nothing_behind) {
    const auto rows = run_quickly("storm");
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->size(), 1u);
    const auto& row = (*rows)[0];
    EXPECT_GE(row["allocations"], 3'000);
    EXPECT_EQ(row["mismatches"], 0);
    EXPECT_EQ(row["left_committed_mib"], 0);
    EXPECT_GT(row["handed_over"], 0);
    EXPECT_GT(row["launches"], 2);
    EXPECT_GT(row["released_mib"], 0) << "nothing shrank";
}

}  // namespace
}  // namespace orchard::bench
