// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A walk that counts its own calls, against the heap's statistics and the trace.

#include <gtest/gtest.h>

#include "examples/graph/rmat.hpp"
#include "examples/walk/walk_runner.cuh"
#include "runtime/heap/heap.hpp"
#include "runtime/trace/followed_blocks.hpp"
#include "runtime/trace/trace_reader.hpp"
#include "tests/support/hardened_fixture.hpp"
#include "tests/trace/trace_file.hpp"

namespace orchard::test {
namespace {

using simt::order;

/// What the walk has asked for, in device memory.
struct own_counts {
    simt::device_word<std::uint64_t> allocated;
    simt::device_word<std::uint64_t> freed;
    simt::device_word<std::uint64_t> kept_place;  ///< calls of `realloc` that returned the same block
};

/// A heap that counts the calls of the walk.
struct counting_heap {
    heap_ref heap;
    own_counts* counts;

    ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        void* const p = heap.malloc(bytes);
        counts->allocated.fetch_add<order::relaxed>(p != nullptr ? 1 : 0);
        return p;
    }
    ORCHARD_FN void free(void* p) const {
        counts->freed.fetch_add<order::relaxed>(p != nullptr ? 1 : 0);
        heap.free(p);
    }
    ORCHARD_FN void* realloc(void* p, std::uint64_t bytes) const {
        void* const moved = heap.realloc(p, bytes);
        const bool is_new = moved != nullptr && moved != p;
        counts->allocated.fetch_add<order::relaxed>(is_new ? 1 : 0);
        counts->freed.fetch_add<order::relaxed>(is_new && p != nullptr ? 1 : 0);
        counts->kept_place.fetch_add<order::relaxed>(moved == p ? 1 : 0);
        return moved;
    }
};

/// Inserts, walks, reads the walks by way of logs, and frees everything.
void run_walk(const heap& h, own_counts* counts) {
    const auto graph = examples::generate_rmat({9, 8, 3});
    ASSERT_TRUE(graph.ok()) << graph.status();
    examples::walk_options options;
    options.walkers = 300;
    options.steps = 50;
    auto walk = examples::walk_runner<counting_heap>::create(h.executor(), counting_heap{h.ref(), counts},
                                                             graph->vertices, options);
    ASSERT_TRUE(walk.ok()) << walk.status();
    command_line::progress bar(false);
    examples::phase measured;
    EXPECT_EQ(walk->insert(graph->edges, measured, bar), absl::OkStatus());
    EXPECT_EQ(walk->walk(measured, bar), absl::OkStatus());
    EXPECT_EQ(walk->for_each_slice([](const examples::walk_slice&) {}, measured, bar), absl::OkStatus());
    EXPECT_EQ(walk->free_all(measured), absl::OkStatus());
}

class walk_counts : public on_each_device {};
INSTANTIATE_TEST_SUITE_P(all, walk_counts, testing::Values(device_option::emulated, device_option::cuda),
                         name_of_device);

TEST_P(walk_counts, are_those_of_the_heap_and_of_its_trace) {
    const trace_file file;
    own_counts found{};
    statistics of_heap;
    {
        options o;
        o.device = GetParam();
        o.capacity = 256 << 20;
        o.emulated_workers = 2;
        o.trace = file.path();
        auto h = heap::create(o);
        ASSERT_TRUE(h.ok()) << h.status();
        auto counts = device_array<own_counts>::create(h->executor(), 1);
        ASSERT_TRUE(counts.ok()) << counts.status();
        ASSERT_TRUE(counts->zero().ok());
        ASSERT_NO_FATAL_FAILURE(run_walk(*h, counts->data()));
        ASSERT_TRUE(copy_to_host(h->executor(), &found, counts->data(), sizeof(found)).ok());
        const auto stats = h->stats();
        ASSERT_TRUE(stats.ok()) << stats.status();
        of_heap = *stats;
    }
    const std::uint64_t allocated = found.allocated.load<order::relaxed>();
    const std::uint64_t freed = found.freed.load<order::relaxed>();
    EXPECT_GT(allocated, 1000u);
    EXPECT_EQ(allocated, freed);
    EXPECT_EQ(of_heap.allocations, allocated);
    EXPECT_EQ(of_heap.frees, freed);
    EXPECT_EQ(of_heap.failed_allocations, 0u);
    EXPECT_EQ(of_heap.reallocs - of_heap.reallocs_moved, found.kept_place.load<order::relaxed>());

    const auto trace = load_trace(file.path());
    ASSERT_TRUE(trace.ok()) << trace.status();
    followed_blocks blocks;
    std::uint64_t traced = 0;
    std::uint64_t traced_frees = 0;
    for (const event& e : trace->events) {
        const auto effect = blocks.take(e).what;
        traced += effect == followed_blocks::effect::allocated ? 1 : 0;
        traced_frees += effect == followed_blocks::effect::freed ? 1 : 0;
        EXPECT_NE(effect, followed_blocks::effect::doubled);
    }
    EXPECT_EQ(traced, allocated);
    EXPECT_EQ(traced_frees, freed);
    EXPECT_TRUE(blocks.blocks().empty());
}

}  // namespace
}  // namespace orchard::test
