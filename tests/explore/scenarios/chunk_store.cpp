// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Chunks of similar lengths go into the chunk store and come out of it again, for other lanes and other sizes, while a
/// lane now and then asks for more than is left, so that reclaims empty the store. In the end one block takes nearly
/// the whole heap: no chunk may have stayed in the store.

#include <array>

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
        constexpr std::uint64_t nearly_all = (store_segments - 1) * segment_bytes;
        w.s.add_kernel({{1}}, [&](simt::thread_position) {
            void* const p = heap.take(nearly_all);
            heap.s.check(p != nullptr, "no block of nearly the whole heap, although nothing is in use");
            heap.give(p, nearly_all);
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

}  // namespace
}  // namespace orchard::explore
