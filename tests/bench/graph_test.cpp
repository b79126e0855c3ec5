// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The benchmark of graphs at small scale: nothing is lost, and traversals find what compressed sparse rows give.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

TEST(bench_graph, builds_traverses_and_takes_down) {
    const auto rows = run_quickly("graph");
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::set<std::string> steps;
    std::map<std::string, std::uint64_t> duplicates;
    for (const auto& row : *rows) {
        EXPECT_EQ(row["wrong"], 0) << row;
        const auto step = row["step"].get<std::string>();
        steps.insert(step);
        duplicates[step] = row["duplicates"].get<std::uint64_t>();
    }
    EXPECT_THAT(steps, testing::IsSupersetOf({"insert all", "memory", "contains", "gather", "search", "snapshot",
                                              "insert beside it", "erase all"}));
    EXPECT_GT(duplicates["insert all"], 0u);
    EXPECT_GE(duplicates["erase all"], duplicates["insert all"])
        << "the batch beside the snapshot took some edges along";
}

}  // namespace
}  // namespace orchard::bench
