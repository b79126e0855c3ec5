// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The host closes the heap while lanes allocate, wait and free. Every lane ends, with memory or with `closing`; frees
/// still work, and no memory is lost.

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t page_bytes = 512 << 10;
constexpr std::uint64_t chunk_bytes = 600 << 10;

void use(heap_world& heap, int rounds) {
    void* page = nullptr;
    for (int i = 0; i < rounds; ++i) {
        void* const chunk = heap.s.pick(2) == 0 ? heap.take(chunk_bytes) : nullptr;
        page = page != nullptr ? page : heap.take(page_bytes);
        if (chunk != nullptr) {
            heap.give(chunk, chunk_bytes);
        }
        if (page != nullptr && heap.s.pick(2) == 0) {
            heap.give(page, page_bytes);
            page = nullptr;
        }
    }
    if (page != nullptr) {
        heap.give(page, page_bytes);
    }
}

void run_close_under_load(world& w) {
    heap_world heap(w, {.segments = 24, .committed_at_start = 2, .cache_target = 2, .refill_batch = 1});
    bool closed = false;
    w.s.add_host("closer", [&] {
        const std::uint32_t moment = heap.s.pick(40);
        simt::pause(moment * moment * 10);
        closed = true;
        heap.close();
    });
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { use(heap, w.size.operations); });
    if (!w.s.run()) {
        return;
    }
    w.s.check(heap.failures() == 0 || (closed && heap.first_failure() == failure_reason::closing),
              "an allocation failed for another reason than closing");
    if (heap.settle({class_of(page_bytes)})) {
        heap.check_empty();
    }
}

const registrar close_under_load{{"close_under_load",
                                  "The host closes the heap while lanes ask, wait and free.",
                                  {{{3, 2}, {3}}, 2},
                                  run_close_under_load}};

}  // namespace
}  // namespace orchard::explore
