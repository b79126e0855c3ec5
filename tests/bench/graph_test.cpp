// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The benchmark of graphs at small scale: nothing is lost, and traversals find what compressed sparse rows give.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiling/bench/graph_kernels.cuh"
#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

/// Returns the directions of the benchmark's graph that are there already when they come, counted by a set.
std::uint64_t duplicates_of(int scale) {
    const std::uint64_t edges = std::uint64_t{16} << scale;
    std::vector<std::uint32_t> sources(edges);
    std::vector<std::uint32_t> targets(edges);
    const simt::thread_position alone{.block = 0, .thread = 0, .threads_per_block = 1, .blocks = 1};
    make_rmat{0, edges, scale, sources.data(), targets.data()}(alone);
    std::set<std::pair<std::uint32_t, std::uint32_t>> stored;
    std::uint64_t twice = 0;
    for (std::uint64_t i = 0; i < edges; ++i) {
        twice += stored.emplace(sources[i], targets[i]).second ? 0 : 1;
        if (sources[i] != targets[i]) {
            twice += stored.emplace(targets[i], sources[i]).second ? 0 : 1;
        }
    }
    return twice;
}

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
    EXPECT_EQ(duplicates["insert all"], duplicates_of(9));
    EXPECT_GE(duplicates["erase all"], duplicates["insert all"])
        << "the batch beside the snapshot took some edges along";
}

}  // namespace
}  // namespace orchard::bench
