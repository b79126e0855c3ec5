// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The benchmark of graphs at small scale: nothing is lost, and traversals find what compressed sparse rows give.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

TEST(bench_graph, builds_traverses_and_takes_down) {
    const auto rows = run_quickly("graph");
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::set<std::string> steps;
    for (const auto& row : *rows) {
        EXPECT_EQ(row["wrong"], 0) << row;
        steps.insert(row["step"].get<std::string>());
    }
    EXPECT_THAT(steps, testing::IsSupersetOf({"insert all", "memory", "contains", "gather", "search", "snapshot",
                                              "insert beside it", "erase all"}));
}

}  // namespace
}  // namespace orchard::bench
