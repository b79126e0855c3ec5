// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Requests are recorded, and their trace replayed.

#include "profiling/traces/replay.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "device/heap_ref.cuh"
#include "examples/graph/rmat.hpp"
#include "examples/walk/walk_runner.cuh"
#include "runtime/trace/trace_reader.hpp"
#include "tests/support/hardened_fixture.hpp"
#include "tests/trace/trace_file.hpp"

namespace orchard::traces {
namespace {

using simt::order;

constexpr std::uint64_t batch = 4096;

class replays : public test::on_each_device {
protected:
    static options values(const std::string& trace = "") {
        options o;
        o.device = GetParam();
        o.capacity = 256 << 20;
        o.emulated_workers = 2;
        o.trace = trace;
        return o;
    }
};
INSTANTIATE_TEST_SUITE_P(all, replays, testing::Values(device_option::emulated, device_option::cuda),
                         test::name_of_device);

/// Records what `act` does in a traced heap; returns the trace.
template <class Act>
whole_trace recorded(options values, const Act& act) {
    const test::trace_file file;
    values.trace = file.path();
    {
        auto h = heap::create(values);
        EXPECT_TRUE(h.ok()) << h.status();
        if (h.ok()) {
            act(*h);
        }
    }
    auto trace = load_replayable(file.path());
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.ok() ? *std::move(trace) : whole_trace{};
}

/// Replays a plan in a new heap, which records it; the blocks in use at the end are freed behind the plan's own frees.
/// Returns the result, and the plan of the recorded replay without these last frees.
std::pair<replay_result, replay_plan> replayed(options values, const replay_plan& plan) {
    replay_result result;
    const whole_trace trace = recorded(std::move(values), [&](heap& h) {
        auto done = traces::replay(h, plan);
        EXPECT_TRUE(done.ok()) << done.status();
        result = done.ok() ? *std::move(done) : replay_result{};
    });
    std::uint64_t frees = 0;
    std::vector<event> until_end;
    for (const event& e : trace.events) {
        frees += e.kind == event_kind::block_freed ? 1 : 0;
        if (frees > plan.frees) {
            break;
        }
        until_end.push_back(e);
    }
    return {std::move(result), plan_replay(until_end, batch)};
}

/// The blocks of a plan, by all that a request has.
std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>, std::uint64_t> requests_of(const replay_plan& plan) {
    std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>, std::uint64_t> counts;
    for (const replay_block& b : plan.blocks) {
        ++counts[{b.bytes, b.tag, b.asked.word()}];
    }
    return counts;
}

void expect_passed(const replay_result& result, const replay_plan& plan) {
    EXPECT_EQ(result.failed, 0u);
    EXPECT_EQ(result.wrong, 0u);
    EXPECT_EQ(result.not_zero, 0u);
    EXPECT_EQ(result.unaligned, 0u);
    EXPECT_EQ(result.at_end, plan.at_end);
    EXPECT_TRUE(result.passed(plan));
}

// --- a walk with tags ---

/// A heap that gives blocks tags by their size, so that lists have another one than walks.
struct tagging_heap {
    heap_ref heap;

    ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        return heap.malloc(bytes, 1 + static_cast<std::uint32_t>(bytes) % 3);
    }
    ORCHARD_FN void free(void* p) const { heap.free(p); }
    ORCHARD_FN void* realloc(void* p, std::uint64_t bytes) const {
        return p == nullptr ? heap.malloc(bytes, 77) : heap.realloc(p, bytes);
    }
};

/// Inserts and walks, and leaves the blocks in use; then frees them if `frees` says so. Returns the heap's statistics.
statistics run_walk(heap& h, bool frees) {
    const auto graph = examples::generate_rmat({9, 8, 3});
    EXPECT_TRUE(graph.ok()) << graph.status();
    examples::walk_options options;
    options.walkers = 300;
    options.steps = 50;
    auto walk =
        examples::walk_runner<tagging_heap>::create(h.executor(), tagging_heap{h.ref()}, graph->vertices, options);
    EXPECT_TRUE(walk.ok()) << walk.status();
    command_line::progress bar(false);
    examples::phase measured;
    EXPECT_EQ(walk->insert(graph->edges, measured, bar), absl::OkStatus());
    EXPECT_EQ(walk->walk(measured, bar), absl::OkStatus());
    if (frees) {
        EXPECT_EQ(walk->for_each_slice([](const examples::walk_slice&) {}, measured, bar), absl::OkStatus());
        EXPECT_EQ(walk->free_all(measured), absl::OkStatus());
    }
    const auto stats = h.stats();
    EXPECT_TRUE(stats.ok()) << stats.status();
    return stats.ok() ? *stats : statistics{};
}

TEST_P(replays, of_a_walk_leaves_the_same_sizes_and_tags_twice) {
    for (const bool frees : {false, true}) {
        statistics walk;
        const whole_trace trace = recorded(values(), [&](heap& h) { walk = run_walk(h, frees); });
        const replay_plan plan = plan_replay(trace.events, batch);
        // The heap's own counts of the walk.
        EXPECT_EQ(plan.allocations, walk.allocations);
        EXPECT_EQ(plan.frees, walk.frees);
        EXPECT_EQ(plan.unknown, 0u);
        EXPECT_EQ(plan.at_end.empty(), frees);
        std::map<std::uint32_t, std::uint64_t> of_tag;
        for (const auto& [what, count] : plan.at_end) {
            of_tag[what.second] += count;
        }
        EXPECT_TRUE(frees || of_tag.size() >= 2) << of_tag.size() << " tags";
        EXPECT_FALSE(of_tag.contains(0));
        for (int turn = 0; turn < 2; ++turn) {
            const auto [result, again] = replayed(values(), plan);
            expect_passed(result, plan);
            // What the heap has reported of the replay, with its tags.
            EXPECT_EQ(again.at_end, plan.at_end);
            EXPECT_EQ(again.allocations, plan.allocations);
            EXPECT_EQ(again.frees, plan.frees);
            EXPECT_EQ(requests_of(again), requests_of(plan));
        }
    }
}

// --- how blocks were asked for ---

/// Each thread asks for zeroed blocks of several sizes, and keeps them. Other blocks are written and freed before, so
/// that memory is not zero by chance.
struct ask_for_zeroed {
    heap_ref heap;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (const std::uint64_t bytes : {3u, 24u, 1000u, 70'000u}) {
            auto* const written = static_cast<std::uint8_t*>(heap.malloc(bytes));
            if (written != nullptr) {
                written[bytes - 1] = 0xff;
            }
            heap.free(written);
            (void)heap.calloc(1 + at.thread % 2, bytes);
        }
        if (at.thread == 0) {
            (void)heap.calloc(3, 400'000);
        }
    }
};

TEST_P(replays, makes_zeroed_blocks_by_calloc) {
    const whole_trace trace = recorded(values(), [](heap& h) {
        const auto ran = simt::launch(h.executor(), simt::grid{2, 40}, ask_for_zeroed{h.ref()});
        EXPECT_TRUE(ran.ok) << ran.error;
    });
    const replay_plan plan = plan_replay(trace.events, batch);
    std::uint64_t zeroed = 0;
    for (const replay_block& b : plan.blocks) {
        zeroed += b.asked == block_request{request_kind::zeroed} ? 1 : 0;
    }
    EXPECT_EQ(zeroed, 2u * 40 * 4 + 2);
    EXPECT_EQ(plan.allocations, zeroed + 2 * 40 * 4);
    // The blocks of `malloc` are full of another byte there.
    options junk = values();
    junk.hardened = hardening::detect;
    junk.fill = block_fill::junk;
    for (const options& o : {values(), junk}) {
        const auto [result, again] = replayed(o, plan);
        expect_passed(result, plan);
        EXPECT_EQ(requests_of(again), requests_of(plan));
    }
}

/// Each thread asks for a small and a large block of every alignment.
struct ask_for_aligned {
    heap_ref heap;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t alignment = 1; alignment <= segment_bytes; alignment *= 2) {
            (void)heap.aligned_alloc(alignment, 40 + at.thread);
            (void)heap.aligned_alloc(alignment, 600'000 + at.thread);
            (void)heap.malloc(40);  // so that a block has no alignment by chance
        }
    }
};

TEST_P(replays, makes_aligned_blocks_by_aligned_alloc) {
    const whole_trace trace = recorded(values(), [](heap& h) {
        const auto ran = simt::launch(h.executor(), simt::grid{1, 3}, ask_for_aligned{h.ref()});
        EXPECT_TRUE(ran.ok) << ran.error;
    });
    const replay_plan plan = plan_replay(trace.events, batch);
    std::map<std::uint32_t, std::uint64_t> of_alignment;
    for (const replay_block& b : plan.blocks) {
        of_alignment[b.asked.log] += b.asked.kind == request_kind::aligned ? 1 : 0;
    }
    EXPECT_EQ(of_alignment.size(), 22u);
    for (const auto& [log, count] : of_alignment) {
        EXPECT_EQ(count, 2u * 3) << "alignment 2^" << log;
    }
    const auto [result, again] = replayed(values(), plan);
    expect_passed(result, plan);
    EXPECT_EQ(requests_of(again), requests_of(plan));
}

/// Lanes ask together for arrays of two layouts: all lanes of a warp, then every third one. The even ones free.
struct ask_for_arrays {
    heap_ref heap;
    simt::device_word<std::uint64_t>* interleaved;  ///< arrays

    ORCHARD_FN void keep(const lane_array<int>& a, bool frees) const {
        interleaved->fetch_add<order::relaxed>(a.map() == lane_map::linear() ? 0 : 1);
        if (frees) {
            heap.free_array(a);
        }
    }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        (void)heap.malloc(100);
        keep(heap.allocate_array<int>(500 + at.thread, layout::interleaved(tile::b128)), at.thread % 2 == 0);
        if (at.thread % 3 == 0) {
            keep(heap.allocate_array<int>(9000, layout::interleaved(tile::k4)), at.thread % 2 == 0);
        }
        keep(heap.allocate_array<int>(30, layout::linear()), false);
        keep(heap.allocate_array<int>(40'000, layout::interleaved(tile::k64)), at.thread % 2 == 0);
    }
};

TEST_P(replays, makes_interleaved_arrays_by_the_lanes_that_asked_together) {
    std::uint64_t interleaved = 0;
    const whole_trace trace = recorded(values(), [&](heap& h) {
        auto count = device_array<simt::device_word<std::uint64_t>>::create(h.executor(), 1);
        ASSERT_TRUE(count.ok()) << count.status();
        const auto ran = simt::launch(h.executor(), simt::grid{2, 64}, ask_for_arrays{h.ref(), count->data()});
        EXPECT_TRUE(ran.ok) << ran.error;
        ASSERT_TRUE(copy_to_host(h.executor(), &interleaved, count->data(), sizeof(interleaved)).ok());
    });
    const replay_plan plan = plan_replay(trace.events, batch);
    EXPECT_EQ(plan.arrays, interleaved);
    EXPECT_GT(interleaved, 2u * 128);
    const auto [result, again] = replayed(values(), plan);
    expect_passed(result, plan);
    // Size, tile, and the number of lanes that share a chunk.
    EXPECT_EQ(requests_of(again), requests_of(plan));
}

// --- heaps that are too small, or without all events ---

TEST_P(replays, fails_where_the_heap_is_too_small) {
    std::vector<event> events;
    for (std::uint32_t i = 0; i < 40; ++i) {
        events.push_back({i + 1, std::uint64_t{i} << 21, 2 << 20, i, 0, event_kind::block_allocated});
    }
    const replay_plan plan = plan_replay(events, batch);
    options o = values();
    o.capacity = 32 << 20;
    auto h = heap::create(o);
    ASSERT_TRUE(h.ok()) << h.status();
    const auto result = traces::replay(*h, plan);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_GE(result->failed, 24u);
    EXPECT_FALSE(result->passed(plan));
}

// --- the plan ---

event allocate(std::uint64_t at, std::uint32_t thread, block_request asked = {}) {
    return {1, at, 16, thread, asked.word() & 0xffffff, event_kind::block_allocated};
}
event free(std::uint64_t at, std::uint32_t thread) { return {1, at, 0, thread, 0, event_kind::block_freed}; }

TEST(replay_plan, ends_a_batch_before_a_free_of_another_threads_block) {
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

/// The steps of a lane in a batch, in short: a, f and t for requests alone and together, m where it meets others.
std::string steps_of(const replay_batch& b, std::uint32_t lane) {
    std::string text;
    for (std::uint32_t i = b.first[lane]; i < b.first[lane + 1]; ++i) {
        text += "aftm"[static_cast<int>(b.steps[i].what)];
    }
    return text;
}

TEST(replay_plan, lets_lanes_meet_that_asked_together) {
    const block_request two_lanes{request_kind::array, 7, 2};
    const replay_plan plan = plan_replay({allocate(0, 33), allocate(1024, 33, two_lanes), allocate(1025, 35, two_lanes),
                                          allocate(2048, 35, two_lanes), free(1024, 33), allocate(2049, 33, two_lanes)},
                                         100);
    ASSERT_EQ(plan.batches.size(), 1u);
    EXPECT_EQ(plan.arrays, 4u);
    // The lane that frees before its second array is not in the group that had begun, but begins another one.
    const replay_batch& b = plan.batches[0];
    ASSERT_EQ(b.first.size(), 33u);
    EXPECT_EQ(steps_of(b, 0), "mmm");
    EXPECT_EQ(steps_of(b, 1), "atmft");
    EXPECT_EQ(steps_of(b, 3), "ttm");
    EXPECT_EQ(steps_of(b, 31), "mmm");
}

TEST(replay_plan, ends_a_batch_before_a_free_of_its_first_block_by_another_thread) {
    const replay_plan plan = plan_replay({allocate(0, 1), allocate(16, 1), allocate(32, 2), free(32, 3)}, 2);
    ASSERT_EQ(plan.batches.size(), 3u);
    EXPECT_EQ(plan.batches[1].first, (std::vector<std::uint32_t>{0, 1}));
}

TEST(replay_plan, does_not_cut_a_group_at_the_end_of_a_batch) {
    const block_request three_lanes{request_kind::array, 7, 3};
    const replay_plan plan = plan_replay(
        {allocate(0, 0, three_lanes), allocate(1, 1, three_lanes), allocate(2, 2, three_lanes), allocate(64, 3)}, 2);
    ASSERT_EQ(plan.batches.size(), 2u);
    EXPECT_EQ(steps_of(plan.batches[0], 2), "t");
    EXPECT_EQ(steps_of(plan.batches[0], 3), "m");
    EXPECT_EQ(plan.batches[1].first, (std::vector<std::uint32_t>{0, 1}));
}

TEST(replay_plan, takes_a_request_that_no_heap_has_as_malloc) {
    const replay_plan plan =
        plan_replay({allocate(0, 0, {request_kind::aligned, 22}), allocate(16, 0, {request_kind::array, 17, 2}),
                     allocate(32, 0, {request_kind::aligned, 21})},
                    100);
    EXPECT_EQ(plan.blocks[0].asked, block_request{});
    EXPECT_EQ(plan.blocks[1].asked, block_request{});
    EXPECT_EQ(plan.blocks[2].asked, (block_request{request_kind::aligned, 21}));
}

}  // namespace
}  // namespace orchard::traces
