// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// One lane asks for a page while another one takes and frees pages, each of another class, one at a time, in a heap of
/// two segments. At no time are more than two pages in use, so that each request has a segment. But each free of the
/// other lane leaves an empty slab behind, which only a reclaim turns into a segment again, and the other lane may take
/// that segment before the first one asks for it. No request may fail. A null of one lane is not judged if the other
/// lane is asking: it may hold the last segment already (docs/protocol.md, "Null").

#include <array>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t own_bytes = 64 << 10;
constexpr std::array<std::uint64_t, 4> other_bytes{96 << 10, 128 << 10, 160 << 10, 192 << 10};

void run_slow_request(world& w) {
    // The group that reclaims may stand still for long; other groups wait for it.
    heap_world heap(w, {.segments = 2,
                        .committed_at_start = 2,
                        .extent = 1,
                        .cache_target = w.s.pick(2),
                        .refill_batch = 1,
                        .reclaim_patience_ns = 100'000'000});
    int asking = 0;  // lanes that are asking for a page; plain, since the simulation runs one actor at a time
    const auto take_and_give = [&](std::uint64_t bytes) {
        ++asking;
        void* const p = heap.take(bytes);
        --asking;
        heap.s.check(p != nullptr || asking != 0, "null, although a segment was unused or had only free pages");
        if (p != nullptr) {
            heap.give(p, bytes);
        }
    };
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        if (at.block == 0) {
            take_and_give(own_bytes);
            return;
        }
        for (const std::uint64_t bytes : other_bytes) {
            take_and_give(bytes);
        }
    });
    if (w.s.run() && heap.settle({class_of(own_bytes), class_of(other_bytes[0]), class_of(other_bytes[1]),
                                  class_of(other_bytes[2]), class_of(other_bytes[3])})) {
        heap.check_empty();
    }
}

const registrar slow_request{{"slow_request",
                              "A lane asks for a page while another one takes and frees the last segments.",
                              {{{1}, {1}}, 1},
                              run_slow_request}};

}  // namespace
}  // namespace orchard::explore
