// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Pages of one class claimed and freed by all lanes at once, in a heap whose slabs come and go.

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

void run_page_claim(world& w) {
    constexpr std::uint64_t bytes = 256 << 10;  // eight pages a slab: they run out soon
    heap_world heap(w);
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            void* const p = heap.take(bytes);
            heap.s.check(p != nullptr, "no page, although the heap has room for all");
            heap.give(p, bytes);
        }
    });
    if (w.s.run() && heap.settle({class_of(bytes)})) {
        heap.check_clean(0);
        w.s.check(w.s.owned() == 0, "a block is still owned");
    }
}

const registrar page_claim{
    {"page_claim", "Pages claimed and freed by all lanes, slabs come and go.", {{{3, 2}, {3}}, 2}, run_page_claim}};

}  // namespace
}  // namespace orchard::explore
