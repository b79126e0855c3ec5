// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Chunks of similar lengths go into the chunk store and come out of it again, for other lanes and other sizes, while a
/// lane now and then asks for more than is left, so that reclaims empty the store. At the end of each round, a group of
/// two lanes takes the whole heap as one run. For that, its reclaim must return every chunk to the host, although each
/// lane moves only some out of the store: no chunk may stay there, and no part of one in the segment cache.
///
/// In a second scenario nothing is put while lanes take, each for itself: each finds one of the chunks that are there,
/// also if other lanes take those that it saw, and if no chunk lies where the count of the class says.

#include <array>
#include <atomic>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint32_t store_segments = 24;
// Lengths of 10, 11 and 12 leaves for a lane alone, and of a segment with a tail of as many.
constexpr std::array<std::uint64_t, 4> store_sizes{600 << 10, 700 << 10, 750 << 10, segment_bytes + (600 << 10)};

void run_chunk_store(world& w) {
    heap_world heap(w, {.segments = store_segments,
                        .committed_at_start = store_segments,
                        .extent = 8,
                        .cache_target = 1 + w.s.pick(3),
                        .stored_rows = 1u << w.s.pick(2),
                        .reclaim_patience_ns = 100'000'000,  // a service that stands still delays a refill
                        .unzeroed = w.s.pick(2) == 0});
    for (int round = 0; round < w.size.operations; ++round) {
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
            for (int i = 0; i < w.size.operations; ++i) {
                constexpr std::uint64_t most = (store_segments - 8) * segment_bytes;
                const bool is_large = heap.s.pick(12) == 0;
                const std::uint64_t bytes = is_large ? most : store_sizes[heap.s.pick(store_sizes.size())];
                void* const p = heap.take(bytes);
                if (heap.s.pick(4) == 0) {
                    simt::pause(500);
                }
                if (p != nullptr) {
                    heap.give(p, bytes);
                }
            }
        });
        if (!w.s.run()) {
            return;
        }
        w.s.add_kernel({{2}}, [&](simt::thread_position) {
            constexpr simt::lane_mask both = 3;
            segment_run run;
            const bool found = heap.take_run(both, store_segments, &run) == failure_reason::none;
            heap.s.check(found, "no run of the whole heap, although nothing is in use");
            if (found) {
                heap.give_run(both, run);
            }
        });
        if (!w.s.run()) {
            return;
        }
    }
    if (heap.settle({})) {
        heap.check_empty();
        heap.check_counts();
    }
}

const registrar chunk_store{{"chunk_store",
                             "Chunks wait in the chunk store, and leave it for other sizes and for reclaims.",
                             {{{3, 2}, {3}}, 2},
                             run_chunk_store}};

void run_store_takers(world& w) {
    heap_world heap(w, {.segments = store_segments,
                        .committed_at_start = store_segments,
                        .extent = 8,
                        .cache_target = 1,
                        .stored_rows = 1u << w.s.pick(2)});
    // Chunks lie in other slots than those that the count names, so that lanes meet at the same ones.
    auto& count = heap.view.state->stored_count[device::stored_chunk::class_of(leaves_per_segment)].word;
    const std::uint64_t moved = w.s.pick(12) * device::chunk_count::one_unclaimed;
    count.fetch_add<simt::order::relaxed>(moved);
    std::atomic<int> stored{0};
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        const simt::lane_mask alone = simt::lane_mask{1} << simt::lane_id();
        segment_run run;
        if (device::acquire_segments(heap.view, alone, 1, &run) == failure_reason::none) {
            device::chunk_pieces whole{heap.view, to_underlying(run.first) * leaves_per_segment, leaves_per_segment};
            if (store_chunk(whole)) {
                ++stored;
            } else {
                device::release_segments(heap.view, alone, run);
            }
        }
    });
    if (!w.s.run()) {
        return;
    }
    count.fetch_sub<simt::order::relaxed>(moved);
    std::atomic<int> left{stored.load()};
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        if (left.fetch_sub(1) <= 0) {
            return;
        }
        const simt::lane_mask alone = simt::lane_mask{1} << simt::lane_id();
        device::stored_chunk got{};
        const bool found = take_from_store(heap.view, alone, leaves_per_segment, &got);
        heap.s.check(found, "found no chunk in the store, although there is one for each lane");
        if (found) {
            device::release_segments(heap.view, alone, {segment_index{got.first / leaves_per_segment}, 1});
        }
    });
    if (w.s.run() && heap.settle({})) {
        heap.check_empty();
    }
}

const registrar store_takers{{"store_takers",
                              "Lanes take chunks out of the chunk store, each for itself: each finds one.",
                              {{{3, 2}, {3}}, 1},
                              run_store_takers}};

}  // namespace
}  // namespace orchard::explore
