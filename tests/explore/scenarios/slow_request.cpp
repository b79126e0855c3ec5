// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// One lane asks for a page while others take and free pages, each of another class, one at a time, in a heap of as
/// many segments as there are lanes. At no time are more pages in use, so that each request has a segment. But each
/// free leaves an empty slab behind, which only a reclaim turns into a segment again, and another lane may take that
/// segment before the first one asks for it. No request may fail. A null is not judged if another lane is asking: it
/// may hold the last segment already (docs/protocol.md, "Null").

#include <array>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t own_bytes = 64 << 10;
/// Of each of the other lanes.
constexpr std::array<std::array<std::uint64_t, 3>, 2> other_bytes{
    {{96 << 10, 128 << 10, 160 << 10}, {192 << 10, 224 << 10, 256 << 10}}};

void run_slow_request(world& w) {
    // The group that reclaims may stand still for long; other groups wait for it.
    const std::uint32_t lanes = lanes_of(w.size);
    heap_world heap(w, {.segments = lanes,
                        .committed_at_start = lanes,
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
        const std::uint64_t warp = at.global_warp();
        if (warp == 0) {
            return take_and_give(own_bytes);
        }
        for (const std::uint64_t bytes : other_bytes[warp % other_bytes.size()]) {
            take_and_give(bytes);
        }
    });
    if (w.s.run() && heap.settle({class_of(own_bytes), class_of(other_bytes[0][0]), class_of(other_bytes[0][1]),
                                  class_of(other_bytes[0][2]), class_of(other_bytes[1][0]), class_of(other_bytes[1][1]),
                                  class_of(other_bytes[1][2])})) {
        heap.check_empty();
    }
}

const registrar slow_request{{"slow_request",
                              "A lane asks for a page while others take and free the last segments.",
                              {{{1, 1}, {1}}, 1},
                              run_slow_request}};

}  // namespace
}  // namespace orchard::explore
