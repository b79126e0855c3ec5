// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes grow their large blocks by `realloc`, in place or not, beside lanes that allocate and free segments, and
/// beside refills and reclaims. A block that grew has its new bytes for itself, and an ended chunk gives all of them
/// back.

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint32_t extension_segments = 24;

void run_extensions(world& w) {
    heap_world heap(w, {.segments = extension_segments,
                        .committed_at_start = 4 + w.s.pick(20),
                        .extent = 4,
                        .cache_target = w.s.pick(6),
                        .refill_batch = 1 + w.s.pick(4),
                        .reclaim_patience_ns = 100'000'000,  // a service that stands still delays a refill
                        .unzeroed = w.s.pick(2) == 0});
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        // Of the lanes of a warp that share a chunk, the uppermost one has the last block.
        std::uint64_t bytes = segment_bytes / 2 * (1 + heap.s.pick(3)) + (heap.s.pick(3) << 16);
        void* p = heap.take(bytes);
        for (int i = 0; i < w.size.operations && p != nullptr; ++i) {
            heap.unmark(p, bytes);
            const std::uint64_t wanted =
                at.thread % 4 < 2 && at.thread % 3 != 1 ? bytes : bytes + segment_bytes * (1 + heap.s.pick(2));
            void* const grown = heap.ref.realloc(p, wanted);
            heap.s.check(grown != nullptr || wanted > bytes, "no block, although the old one is large enough");
            p = grown != nullptr ? grown : p;
            bytes = grown != nullptr ? wanted : bytes;
            heap.s.check(heap.ref.usable_size(p) >= bytes, "a block is smaller than was asked for");
            heap.mark(p, bytes);
        }
        if (p != nullptr) {
            heap.give(p, bytes);
        }
    });
    if (w.s.run() && heap.settle({})) {
        heap.check_empty();
        heap.check_counts();
    }
}

const registrar extensions{{"extensions",
                            "Large blocks grow, in place where the segments behind them are free.",
                            {{{4, 2}, {3}}, 2},
                            run_extensions}};

}  // namespace
}  // namespace orchard::explore
