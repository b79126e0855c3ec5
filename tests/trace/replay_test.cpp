// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A walk is recorded, and its trace replayed.

#include "profiling/traces/replay.hpp"

#include <gtest/gtest.h>

#include "examples/graph/rmat.hpp"
#include "examples/walk/walk_run.hpp"
#include "runtime/trace/trace_reader.hpp"
#include "tests/trace/trace_file.hpp"

namespace orchard::traces {
namespace {

options emulated(const std::string& trace = "") {
    options o;
    o.device = device_option::emulated;
    o.capacity = 256 << 20;
    o.emulated_workers = 2;
    o.trace = trace;
    return o;
}

/// Runs a walk in a traced heap; returns what it did, and its trace.
std::pair<examples::walk_result, whole_trace> recorded_walk() {
    const test::trace_file file;
    examples::walk_result result;
    {
        auto h = heap::create(emulated(file.path()));
        EXPECT_TRUE(h.ok()) << h.status();
        const auto graph = examples::generate_rmat({9, 8, 3});
        command_line::progress bar(false);
        auto ran = examples::run_walk(*h, *graph, {.walkers = 300, .steps = 50}, bar);
        EXPECT_TRUE(ran.ok()) << ran.status();
        result = *std::move(ran);
    }
    auto trace = load_trace(file.path());
    EXPECT_TRUE(trace.ok()) << trace.status();
    return {std::move(result), *std::move(trace)};
}

/// The events of blocks up to one, as a trace of its own.
std::vector<event> up_to(const std::vector<event>& events, std::size_t count) {
    return {events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(replay, of_a_walk_leaves_the_same_blocks_twice) {
    const auto [walk, trace] = recorded_walk();
    ASSERT_TRUE(walk.passed());
    const replay_plan all = plan_replay(trace.events, 4096);
    // The heap's own counts of the walk.
    EXPECT_EQ(all.allocations, walk.at_end->allocations);
    EXPECT_EQ(all.frees, walk.at_end->frees);
    EXPECT_EQ(all.unknown, 0u);
    EXPECT_TRUE(all.at_end.empty());
    // The walk frees everything at its end: also what is there after two thirds of its events.
    for (const std::size_t count : {trace.events.size(), trace.events.size() * 2 / 3}) {
        const replay_plan plan = plan_replay(up_to(trace.events, count), 4096);
        for (int turn = 0; turn < 2; ++turn) {
            auto h = heap::create(emulated());
            ASSERT_TRUE(h.ok()) << h.status();
            const auto result = replay(*h, plan);
            ASSERT_TRUE(result.ok()) << result.status();
            EXPECT_EQ(result->failed, 0u);
            EXPECT_EQ(result->wrong, 0u);
            EXPECT_EQ(result->at_end, plan.at_end);
            EXPECT_TRUE(result->passed(plan));
            EXPECT_EQ(plan.at_end.empty(), count == trace.events.size());
        }
    }
}

TEST(replay, of_a_replay_has_the_same_blocks) {
    const auto [walk, trace] = recorded_walk();
    const replay_plan plan = plan_replay(trace.events, 4096);
    const test::trace_file file;
    {
        auto h = heap::create(emulated(file.path()));
        ASSERT_TRUE(h.ok()) << h.status();
        ASSERT_TRUE(replay(*h, plan).ok());
    }
    const auto again = load_trace(file.path());
    ASSERT_TRUE(again.ok()) << again.status();
    const replay_plan of_replay = plan_replay(again->events, 4096);
    EXPECT_EQ(of_replay.allocations, plan.allocations);
    EXPECT_EQ(of_replay.frees, plan.frees);
}

TEST(replay, fails_where_the_heap_is_too_small) {
    std::vector<event> events;
    for (std::uint32_t i = 0; i < 40; ++i) {
        events.push_back({i + 1, std::uint64_t{i} << 21, 2 << 20, i, 5, event_kind::block_allocated});
    }
    const replay_plan plan = plan_replay(events, 4096);
    options o = emulated();
    o.capacity = 32 << 20;
    auto h = heap::create(o);
    ASSERT_TRUE(h.ok()) << h.status();
    const auto result = replay(*h, plan);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GE(result->failed, 24u);
    EXPECT_FALSE(result->passed(plan));
}

TEST(replay_plan, ends_a_batch_before_a_free_of_another_threads_block) {
    const auto allocate = [](std::uint64_t at, std::uint32_t thread) {
        return event{1, at, 16, thread, 0, event_kind::block_allocated};
    };
    const auto free = [](std::uint64_t at, std::uint32_t thread) {
        return event{1, at, 0, thread, 0, event_kind::block_freed};
    };
    const replay_plan plan =
        plan_replay({allocate(0, 1), allocate(16, 2), free(0, 1), free(16, 1), allocate(0, 2)}, 100);
    ASSERT_EQ(plan.batches.size(), 2u);
    EXPECT_EQ(plan.batches[0].first, (std::vector<std::uint32_t>{0, 2, 3}));
    EXPECT_EQ(plan.batches[1].first, (std::vector<std::uint32_t>{0, 1, 2}));
    EXPECT_EQ(plan.peak_bytes, 32u);
    EXPECT_EQ(plan.at_end, (block_counts{{{16, 0}, 1}}));
}

TEST(replay_plan, gives_blocks_their_last_tag) {
    const replay_plan plan = plan_replay({{1, 0, 16, 1, 0, event_kind::block_allocated},
                                          {2, 0, 0, 1, 44, event_kind::block_tagged},
                                          {3, 64, 32, 1, 0, event_kind::block_allocated},
                                          {4, 64, 1, 1, 0, event_kind::block_tagged},
                                          {5, 0, 0, 1, 0, event_kind::block_freed},
                                          {6, 0, 0, 1, 0, event_kind::block_freed}},
                                         100);
    EXPECT_EQ(plan.at_end, (block_counts{{{32, 44}, 1}}));
    EXPECT_EQ(plan.unknown, 1u);
}

}  // namespace
}  // namespace orchard::traces
