// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The graph of the applications on real memory.

#include "profiling/apps/generated_graph.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace orchard::test {
namespace {

using apps::random_graph;

/// As `make_graph` chooses them.
random_graph graph_of(std::uint64_t vertices, std::uint64_t seed = 7) {
    std::uint32_t half_bits = 1;
    while (std::uint64_t{1} << (2 * half_bits) < vertices) {
        ++half_bits;
    }
    return {seed, vertices, half_bits};
}

TEST(GeneratedGraph, EdgesLeadBothWays) {
    for (const std::uint64_t vertices : {1, 2, 3, 4, 5, 64, 1000, 1001, 4096, 4097}) {
        const random_graph g = graph_of(vertices);
        for (std::uint32_t j = 0; j < random_graph::degree; ++j) {
            std::uint64_t alone = 0;
            for (std::uint64_t v = 0; v < vertices; ++v) {
                const std::uint32_t other = g.neighbour(v, j);
                ASSERT_LT(other, vertices);
                EXPECT_EQ(g.neighbour(other, j), v);
                alone += other == v ? 1 : 0;
            }
            EXPECT_EQ(alone, vertices % 2);
        }
    }
}

TEST(GeneratedGraph, MatchingsAndSeedsDiffer) {
    const random_graph g = graph_of(1000);
    const random_graph other = graph_of(1000, 8);
    std::uint64_t same = 0;
    for (std::uint64_t v = 0; v < 1000; ++v) {
        std::set<std::uint32_t> neighbours;
        for (std::uint32_t j = 0; j < random_graph::degree; ++j) {
            neighbours.insert(g.neighbour(v, j));
            same += g.neighbour(v, j) == other.neighbour(v, j) ? 1 : 0;
        }
        EXPECT_GE(neighbours.size(), 6u);
    }
    EXPECT_LT(same, 40u);  // 8 by chance
}

TEST(GeneratedGraph, NeighboursAreSpreadOverAllVertices) {
    const random_graph g = graph_of(1 << 14);
    std::vector<int> in_sixteenth(16);
    for (std::uint64_t v = 0; v < 1024; ++v) {  // neighbours of the first vertices alone
        for (std::uint32_t j = 0; j < random_graph::degree; ++j) {
            ++in_sixteenth[g.neighbour(v, j) >> 10];
        }
    }
    EXPECT_GT(*std::min_element(in_sixteenth.begin(), in_sixteenth.end()), 512 * 3 / 4);
    EXPECT_LT(*std::max_element(in_sixteenth.begin(), in_sixteenth.end()), 512 * 5 / 4);
}

}  // namespace
}  // namespace orchard::test
