// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes create slabs of one class ahead of need and retire them, while others take the same segments. An index of the
/// table stays reserved only while a lane creates a slab there, and a slab is retired only once the table has it.

#include "device/small/slab_growth.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint32_t ahead_bytes = 512 << 10;
constexpr std::uint32_t indices = 2;

/// Says for the class that random probes found no free page.
void say_tight(heap_world& heap, std::uint32_t page_class) {
    heap.view.state->slabs[page_class].sample.store<simt::order::relaxed>(
        device::fill_sample::pack(device::fill_sample::max_words, 0));
}

void run_slab_ahead(world& w) {
    constexpr std::uint32_t segments = 6;
    heap_world heap(w, {.segments = segments, .committed_at_start = segments, .cache_target = 2, .refill_batch = 1});
    const std::uint32_t page_class = class_of(ahead_bytes);
    w.s.add_kernel({{1}}, [&](simt::thread_position) {  // puts segments into the segment cache
        segment_run run;
        heap.s.check(heap.take_run(1, 1, &run) == failure_reason::none, "no run in an empty heap");
        heap.give_run(1, run);
    });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        const simt::lane_mask alone = simt::lane_mask{1} << simt::lane_id();
        for (int i = 0; i < w.size.operations; ++i) {
            segment_run run;
            switch (w.s.pick(4)) {
                case 0:
                    if (device::cache_take(heap.view, alone, 1, &run)) {
                        simt::pause(100);
                        device::release_segments(heap.view, alone, run);
                    }
                    break;
                case 1: device::retire_empty_slabs(heap.view, alone, page_class); break;
                default: say_tight(heap, page_class); device::grow_ahead(heap.view, page_class, w.s.pick(indices));
            }
        }
    });
    if (w.s.run() && heap.settle({page_class})) {
        heap.check_empty();
    }
}

const registrar slab_ahead{{"slab_ahead",
                            "Slabs are created ahead of need and retired, while others take the segments.",
                            {{{3, 2}, {3}}, 5},
                            run_slab_ahead}};

}  // namespace
}  // namespace orchard::explore
