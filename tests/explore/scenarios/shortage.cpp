// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A heap is exhausted, and lanes make requests that it can never serve: they search for unused memory repeatedly, in
/// vain. One lane frees its page, which empties a slab, and requests a segment: it must get that segment, although no
/// other lane has found it yet.

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t page = 512 << 10;

void run_shortage(world& w) {
    // The group that reclaims may stand still for long while it holds all unused memory; other groups wait for it.
    constexpr std::uint64_t patience_ns = 100'000'000;
    heap_world heap(w, {.segments = 2,
                        .committed_at_start = 2,
                        .extent = 1,
                        .cache_target = w.s.pick(2),
                        .refill_batch = 1,
                        .reclaim_patience_ns = patience_ns});
    for (int round = 0; round < w.size.operations; ++round) {
        void* segment = nullptr;
        void* last = nullptr;
        w.s.add_kernel({{1}}, [&](simt::thread_position) {
            segment = heap.take(segment_bytes);
            last = heap.take(page);
            heap.s.check(segment != nullptr && last != nullptr, "null, although the heap has room for both");
        });
        if (!w.s.run()) {
            return;
        }
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
            if (at.global_thread() != 0) {
                heap.s.check(heap.take(2 * segment_bytes) == nullptr, "two segments, of which one was in use");
                return;
            }
            heap.give(last, page);
            last = heap.take(segment_bytes);
            // Without a segment cache, a request returns what it finds there before it asks the host. A null may miss
            // memory on that way (docs/protocol.md), once for each of the three lanes that make such a request. A lane
            // may stand still meanwhile, for at most 10 ms. Without the pause, the next request would miss the same
            // memory.
            constexpr std::uint64_t longer_ns = 20'000'000;
            for (int again = 0; last == nullptr && heap.setup.cache_target == 0 && again < 3; ++again) {
                simt::pause(longer_ns);
                last = heap.take(segment_bytes);
            }
            heap.s.check(last != nullptr, "null, although the lane itself had freed a segment before");
        });
        if (!w.s.run()) {
            return;
        }
        w.s.add_kernel({{1}}, [&](simt::thread_position) {
            heap.give(segment, segment_bytes);
            heap.give(last, segment_bytes);
        });
        if (!w.s.run()) {
            return;
        }
    }
    if (heap.settle({class_of(page)})) {
        heap.check_empty();
    }
}

const registrar shortage{{"shortage",
                          "A thread that frees the last memory gets it, while requests of others fail.",
                          {{{1}, {2}, {1}}, 2},
                          run_shortage}};

}  // namespace
}  // namespace orchard::explore
