// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The walk's kernels on the emulated device, with a heap that is known to be correct. Plain C++, because that heap
// cannot run on a GPU.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "examples/walk/checks.hpp"
#include "examples/walk/walk_runner.cuh"
#include "tests/walk/counted_heap.hpp"
#include "tests/walk/graphs.hpp"

namespace orchard::examples {
namespace {

using test::counted_heap;

const simt::executor two_workers{simt::device_kind::emulated, 2};

class walk_kernels : public ::testing::Test {
protected:
    walk_runner<counted_heap> make(const edge_list& graph, const walk_options& options) {
        absl::StatusOr<walk_runner<counted_heap>> made =
            walk_runner<counted_heap>::create(two_workers, counted_heap(&counters_), graph.vertices, options);
        EXPECT_TRUE(made.ok()) << made.status();
        return *std::move(made);
    }

    /// Inserts, walks, checks everything, frees everything.
    void run(const edge_list& graph, const walk_options& options) {
        walk_runner<counted_heap> runner = make(graph, options);
        phase measured;
        ASSERT_TRUE(runner.insert(shuffled(graph.edges, options.seed), measured, bar_).ok());
        EXPECT_EQ(measured.items, graph.edges.size() * 2);
        ASSERT_TRUE(runner.walk(measured, bar_).ok());
        const absl::StatusOr<host_graph> input = make_host_graph(graph);
        const absl::StatusOr<host_graph> copied = runner.copy_adjacency(measured);
        ASSERT_TRUE(input.ok() && copied.ok());
        const check adjacency = check_adjacency(*input, *copied);
        EXPECT_TRUE(adjacency.passed) << adjacency.detail;
        walk_checker checker(*input, *copied, runner.rule());
        std::uint64_t walks = 0;
        const absl::Status looked = runner.for_each_slice(
            [&](const walk_slice& slice) {
                EXPECT_EQ(slice.first, walks);
                walks += slice.walkers.size();
                for (std::size_t i = 0; i < slice.walkers.size(); ++i) {
                    checker.add(slice.first + i, {slice.walks[i], slice.walkers[i].size});
                    visits_ += slice.walkers[i].size;
                }
            },
            measured, bar_);
        ASSERT_TRUE(looked.ok()) << looked;
        EXPECT_EQ(walks, options.walkers);
        EXPECT_TRUE(checker.every_step_an_edge().passed) << checker.every_step_an_edge().detail;
        const absl::StatusOr<std::vector<std::uint64_t>> visits = runner.copy_visits();
        ASSERT_TRUE(visits.ok());
        EXPECT_TRUE(checker.visits_equal(*visits).passed) << checker.visits_equal(*visits).detail;
        EXPECT_EQ(std::accumulate(visits->begin(), visits->end(), std::uint64_t{0}), visits_);
        ASSERT_TRUE(runner.free_all(measured).ok());
        EXPECT_EQ(counters_.live.load(), 0);
    }

    counted_heap::counters counters_;
    command_line::progress bar_{false};
    std::uint64_t visits_ = 0;
};

TEST_F(walk_kernels, path) {
    run(test::path(500), {.walkers = 100, .steps = 20});
    EXPECT_EQ(visits_, 100u * 21);
    EXPECT_EQ(counters_.moves.load(), 0);  // no list of a path outgrows its first capacity
}

TEST_F(walk_kernels, star_whose_hub_all_threads_extend) {
    run(test::star(5000), {.walkers = 64, .steps = 9, .batch = 1000});
    EXPECT_GE(counters_.moves.load(), 1);
}

TEST_F(walk_kernels, walks_stop_at_dead_ends) {
    run(test::star(10, 1000), {.walkers = 500, .steps = 10});
    EXPECT_GE(visits_, 500u);
    EXPECT_LT(visits_, 500u * 11);
}

TEST_F(walk_kernels, walks_restart_at_dead_ends) {
    run(test::star(10, 1000), {.walkers = 500, .steps = 10, .at_dead_end = dead_end::restart});
    EXPECT_EQ(visits_, 500u * 11);
}

TEST_F(walk_kernels, a_walk_longer_than_a_segment_gets_a_longer_log) {
    run(test::path(3), {.walkers = 2, .steps = 600000});
}

TEST_F(walk_kernels, one_edge_and_one_walker) { run(test::path(2), {.walkers = 1, .steps = 1}); }

TEST_F(walk_kernels, insertion_ends_with_an_error_where_the_heap_gives_nothing) {
    const edge_list graph = test::star(3000);
    counters_.most = 40;
    walk_runner<counted_heap> runner = make(graph, {.walkers = 10});
    phase measured;
    const absl::Status status = runner.insert(graph.edges, measured, bar_);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    phase ignored;
    runner.free_all(ignored).IgnoreError();  // returns the same error again, but frees the lists
    EXPECT_EQ(counters_.live.load(), 0);
}

TEST_F(walk_kernels, walking_ends_with_an_error_where_the_heap_gives_nothing) {
    const edge_list graph = test::path(100);
    walk_runner<counted_heap> runner = make(graph, {.walkers = 100});
    phase measured;
    ASSERT_TRUE(runner.insert(graph.edges, measured, bar_).ok());
    counters_.most = counters_.allocations.load() + 50;
    EXPECT_EQ(runner.walk(measured, bar_).code(), absl::StatusCode::kResourceExhausted);
    phase ignored;
    runner.free_all(ignored).IgnoreError();
    EXPECT_EQ(counters_.live.load(), 0);
}

TEST(log_shape, keeps_a_slice_bounded_and_covers_all_walkers) {
    for (const std::uint64_t walkers : {1ull, 7ull, 1000ull, 1000000ull, 50000000ull}) {
        for (const std::uint32_t steps : {1u, 40u, 5000u, 600000u, 100000000u}) {
            const log_shape shape = log_shape::of({.walkers = walkers, .steps = steps});
            EXPECT_GE(shape.per_log, 1u);
            EXPECT_GE(shape.logs, 1u);
            EXPECT_GE(shape.bytes, segment_bytes);
            EXPECT_LE(shape.per_log * shape.stride * 4, shape.bytes);
            EXPECT_TRUE(shape.logs == 1 || shape.logs * shape.bytes <= 32 * segment_bytes);
        }
    }
}

}  // namespace
}  // namespace orchard::examples
