// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "examples/graph/host_graph.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "device/simt/random.hpp"

namespace orchard::examples {
namespace {

edge_list list_of(std::uint32_t vertices, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) {
    std::vector<edge> edges;
    for (const auto& [a, b] : pairs) {
        edges.push_back(edge::between(a, b));
    }
    return make_edge_list(vertices, std::move(edges));
}

TEST(host_graph, holds_both_directions_ascending) {
    const absl::StatusOr<host_graph> graph = make_host_graph(list_of(5, {{3, 1}, {0, 3}, {4, 3}, {0, 1}}));
    ASSERT_TRUE(graph.ok());
    EXPECT_EQ(graph->offsets, (std::vector<std::uint64_t>{0, 2, 4, 4, 7, 8}));
    EXPECT_EQ(graph->neighbours, (std::vector<std::uint32_t>{1, 3, 0, 3, 0, 1, 4, 3}));
    EXPECT_EQ(graph->max_degree(), 3u);
    EXPECT_TRUE(has_edge(*graph, 1, 3));
    EXPECT_TRUE(has_edge(*graph, 3, 1));
    EXPECT_FALSE(has_edge(*graph, 1, 4));
    EXPECT_FALSE(has_edge(*graph, 2, 0));
}

/// Returns `count` random edges between vertices below `vertices`, with self-loops and duplicates.
std::vector<edge> random_edges(std::uint32_t vertices, std::uint64_t count) {
    std::vector<edge> edges;
    for (std::uint64_t i = 0; i < count; ++i) {
        edges.push_back(edge::between(simt::below32(simt::random_bits(1, 0, i), vertices),
                                      simt::below32(simt::random_bits(1, 1, i), vertices)));
    }
    return edges;
}

/// Numbers of edges around the one from which a list has buckets.
constexpr std::uint64_t list_sizes[] = {1000, (1u << 20) - 1, 1u << 20, (1u << 20) + 77};

TEST(edge_list, is_the_sorted_set_whatever_the_number_of_edges) {
    for (const std::uint64_t count : list_sizes) {
        for (const std::uint32_t vertices : {3u, 1500u, 70001u, 0xffffffffu}) {
            const std::vector<edge> edges = random_edges(vertices, count);
            std::vector<edge> expected = edges;
            std::sort(expected.begin(), expected.end());
            expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
            std::erase_if(expected, [](edge e) { return e.low() == e.high(); });
            EXPECT_TRUE(make_edge_list(vertices, edges).edges == expected) << count << " of " << vertices;
        }
    }
}

TEST(edge_list, shuffling_keeps_the_edges_and_follows_the_seed) {
    for (const std::uint64_t count : list_sizes) {
        const std::vector<edge> edges = make_edge_list(1u << 30, random_edges(1u << 30, count)).edges;
        std::vector<edge> a = shuffled(edges, 1);
        EXPECT_TRUE(a != edges);
        EXPECT_TRUE(a == shuffled(edges, 1));
        EXPECT_TRUE(a != shuffled(edges, 2));
        // A random order: about half of the pairs of neighbours ascend.
        std::uint64_t ascend = 0;
        for (std::size_t i = 1; i < a.size(); ++i) {
            ascend += a[i - 1] < a[i] ? 1 : 0;
        }
        EXPECT_GT(ascend, a.size() * 45 / 100);
        EXPECT_LT(ascend, a.size() * 55 / 100);
        std::sort(a.begin(), a.end());
        EXPECT_TRUE(a == edges);
    }
}

}  // namespace
}  // namespace orchard::examples
