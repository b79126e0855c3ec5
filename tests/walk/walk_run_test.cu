// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The whole job on a real heap, on the emulated device.

#include "examples/walk/walk_run.hpp"

#include <string>

#include <absl/strings/match.h>
#include <gtest/gtest.h>
#include <checkout.hpp>

#include "examples/graph/read_graph.hpp"
#include "examples/graph/rmat.hpp"
#include "tests/walk/graphs.hpp"

namespace orchard::examples {
namespace {

heap make_heap(std::uint64_t capacity) {
    options values;
    values.device = device_option::emulated;
    values.capacity = capacity;
    values.emulated_workers = 2;
    absl::StatusOr<heap> h = heap::create(values);
    EXPECT_TRUE(h.ok()) << h.status();
    return *std::move(h);
}

walk_result run(const edge_list& graph, const walk_options& walk, std::uint64_t capacity = 256 * mib) {
    heap h = make_heap(capacity);
    command_line::progress bar(false);
    absl::StatusOr<walk_result> result = run_walk(h, graph, walk, bar);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : walk_result{};
}

/// The checks that did not pass, by name.
std::string failed_checks(const walk_result& result) {
    std::string names = result.checks.empty() ? "no check at all" : "";
    for (const check& c : result.checks) {
        names += c.passed ? "" : c.name + ": " + c.detail + "\n";
    }
    return names;
}

TEST(walk_run, star_with_a_hub_of_5000) {
    const walk_result result = run(test::star(5000), {.walkers = 300, .steps = 40});
    EXPECT_EQ(failed_checks(result), "");
    EXPECT_EQ(result.max_degree, 5000u);
    EXPECT_EQ(result.at_end->allocations, result.at_end->frees);
    EXPECT_GT(result.before_freeing->pages_in_use, 5000u);
}

TEST(walk_run, path_moves_no_list_and_passes) {
    const walk_result result = run(test::path(2000), {.walkers = 100, .steps = 40});
    EXPECT_TRUE(result.passed());
    EXPECT_FALSE(used_all(result.checks));
    EXPECT_EQ(failed_checks(result), "lists moved as they grew: 0 calls of realloc moved their block\n");
}

TEST(walk_run, generated_graph_with_restarts_and_several_slices_of_logs) {
    const absl::StatusOr<edge_list> graph = generate_rmat({10, 8, 3});
    ASSERT_TRUE(graph.ok());
    const walk_result result =
        run(*graph, {.walkers = 40000, .steps = 500, .batch = 1000, .at_dead_end = dead_end::restart}, 1 * gib);
    EXPECT_EQ(failed_checks(result), "");
    EXPECT_GT(result.at_end->chunk_allocations, 32u);  // more logs than one slice has
}

TEST(walk_run, real_graph) {
    const absl::StatusOr<edge_list> graph =
        read_graph(ORCHARD_SOURCE_DIR "/examples/data/debian12-dependencies.mtx.gz");
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->vertices, 63666u);
    EXPECT_EQ(graph->entries, 300368u);
    const walk_result result = run(*graph, {.walkers = 200});
    EXPECT_EQ(failed_checks(result), "");
    EXPECT_GE(result.max_degree, 21841u);
}

TEST(walk_run, a_heap_too_small_ends_the_run_with_its_own_words) {
    heap h = make_heap(4 * mib);
    command_line::progress bar(false);
    const absl::StatusOr<edge_list> graph = generate_rmat({16, 16, 1});
    ASSERT_TRUE(graph.ok());
    const absl::Status status = run_walk(h, *graph, {}, bar).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "inserting edges: the heap gave no memory")) << status;
    const std::optional<failure> first = h.first_failure();
    ASSERT_TRUE(first.has_value());
    EXPECT_TRUE(absl::StrContains(status.message(),
                                  absl::string_view(explain(first->reason).data(), explain(first->reason).size())))
        << status;
}

TEST(walk_run, a_graph_without_edges_is_refused) {
    heap h = make_heap(64 * mib);
    command_line::progress bar(false);
    const absl::Status status = run_walk(h, make_edge_list(5, {}), {}, bar).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), "5 vertices has no edges")) << status;
}

TEST(suggested_capacity, is_at_least_a_gibibyte_and_grows_with_the_input) {
    EXPECT_EQ(suggested_capacity(10, 9, {}), 1 * gib);
    EXPECT_GT(suggested_capacity(10, 9, {.walkers = 10'000'000}), 5 * gib);
    EXPECT_GT(suggested_capacity(1u << 22, 64 << 20, {}), 2 * gib);
    EXPECT_EQ(suggested_capacity(1u << 22, 64 << 20, {}) % segment_bytes, 0u);
}

}  // namespace
}  // namespace orchard::examples
