// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "examples/graph/rmat.hpp"

#include <algorithm>

#include <absl/strings/match.h>
#include <gtest/gtest.h>

#include "examples/graph/host_graph.hpp"

namespace orchard::examples {
namespace {

edge_list make(int scale, int factor, std::uint64_t seed) {
    absl::StatusOr<edge_list> list = generate_rmat({scale, factor, seed});
    EXPECT_TRUE(list.ok()) << list.status();
    return list.ok() ? *std::move(list) : edge_list{};
}

TEST(rmat, same_options_same_graph_and_another_seed_another_graph) {
    EXPECT_EQ(make(10, 8, 5).edges, make(10, 8, 5).edges);
    EXPECT_NE(make(10, 8, 5).edges, make(10, 8, 6).edges);
}

TEST(rmat, edges_are_a_set_within_the_vertices) {
    const edge_list list = make(14, 16, 1);  // large enough for the radix sort
    EXPECT_EQ(list.vertices, 1u << 14);
    EXPECT_EQ(list.entries, 16u << 14);
    EXPECT_EQ(list.edges.size() + list.self_loops + list.duplicates, list.entries);
    EXPECT_TRUE(std::is_sorted(list.edges.begin(), list.edges.end()));
    EXPECT_EQ(std::adjacent_find(list.edges.begin(), list.edges.end()), list.edges.end());
    EXPECT_TRUE(std::all_of(list.edges.begin(), list.edges.end(),
                            [&](edge e) { return e.low() < e.high() && e.high() < list.vertices; }));
}

TEST(rmat, degrees_are_skewed) {
    const edge_list list = make(14, 16, 1);
    const absl::StatusOr<host_graph> graph = make_host_graph(list);
    ASSERT_TRUE(graph.ok());
    const double mean = 2.0 * static_cast<double>(list.edges.size()) / list.vertices;
    EXPECT_GT(graph->max_degree(), 30 * mean);
    std::uint32_t without = 0;
    for (std::uint32_t v = 0; v < list.vertices; ++v) {
        without += graph->degree(v) == 0 ? 1 : 0;
    }
    EXPECT_GT(without, list.vertices / 20);  // a uniform graph of this density has no such vertices
}

TEST(rmat, numbers_out_of_range_are_refused_with_the_range) {
    for (const int scale : {-1, 0, 31, 40}) {
        const absl::Status status = generate_rmat({scale, 16, 1}).status();
        EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_TRUE(absl::StrContains(status.message(), "1 to 30")) << status;
    }
    EXPECT_EQ(generate_rmat({10, 0, 1}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(generate_rmat({30, 1024, 1}).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace orchard::examples
