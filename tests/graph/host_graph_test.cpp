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

TEST(edge_list, radix_and_comparison_sort_agree) {
    std::vector<edge> edges;
    const std::uint32_t vertices = 70001;
    for (std::uint64_t i = 0; i < 100000; ++i) {
        edges.push_back(edge::between(simt::below32(simt::random_bits(1, 0, i), vertices),
                                      simt::below32(simt::random_bits(1, 1, i), vertices)));
    }
    std::vector<edge> expected = edges;
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    std::erase_if(expected, [](edge e) { return e.low() == e.high(); });
    EXPECT_EQ(make_edge_list(vertices, edges).edges, expected);
}

TEST(edge_list, shuffling_keeps_the_edges_and_follows_the_seed) {
    std::vector<edge> edges;
    for (std::uint32_t v = 1; v < 1000; ++v) {
        edges.push_back(edge::between(0, v));
    }
    std::vector<edge> a = shuffled(edges, 1);
    EXPECT_NE(a, edges);
    EXPECT_EQ(a, shuffled(edges, 1));
    EXPECT_NE(a, shuffled(edges, 2));
    std::sort(a.begin(), a.end());
    EXPECT_EQ(a, edges);
}

}  // namespace
}  // namespace orchard::examples
