// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Slabs that are retired while other lanes claim and free pages in them, and whose segments become slabs of another
/// class at once. Every change of a segment's kind raises its generation by one.

#include <array>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

// Four words of bitmap a slab, and one word with four pages.
constexpr std::array<std::uint64_t, 2> page_retire_sizes{8 << 10, 512 << 10};

void claim_and_retire(heap_world& heap, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const std::uint64_t bytes = page_retire_sizes[heap.s.pick(page_retire_sizes.size())];
        void* const p = heap.take(bytes);
        heap.s.check(p != nullptr, "no page, although the heap has room for all");
        heap.give(p, bytes);
        if (heap.s.pick(2) == 0) {
            const simt::lane_mask mask = simt::converge();
            const std::uint64_t which =
                page_retire_sizes[device::from_leader(mask, heap.s.pick(page_retire_sizes.size()))];
            device::retire_empty_slabs(heap.view, mask, class_of(static_cast<std::uint32_t>(which)));
        }
    }
}

void run_page_retire(world& w) {
    heap_world heap(w, {.segments = 12, .committed_at_start = 12, .cache_target = 4, .refill_batch = 1});
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { claim_and_retire(heap, w.size.operations); });
    if (!w.s.run() || !heap.settle({class_of(page_retire_sizes[0]), class_of(page_retire_sizes[1])})) {
        return;
    }
    heap.check_empty();
    std::uint64_t changes = 0;
    for (std::uint32_t i = 0; i < heap.setup.segments; ++i) {
        changes += device::descriptor::generation_field::get(heap.view.descriptor(i).load<simt::order::relaxed>());
    }
    const std::uint64_t published = heap.sum(device::counter::slabs_published);
    const std::uint64_t retired = heap.sum(device::counter::slabs_retired);
    w.s.check(published == retired, "a slab was published and not retired");
    w.s.check(changes == published + retired, "the generations do not say how often segments have changed");
}

const registrar page_retire{{"page_retire",
                             "Slabs retired while others claim in them; their segments used anew.",
                             {{{3, 2}, {3}}, 2},
                             run_page_retire}};

}  // namespace
}  // namespace orchard::explore
