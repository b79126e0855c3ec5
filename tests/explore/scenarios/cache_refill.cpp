// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A small segment cache on the border of two words: groups take and put runs while refills are in progress and other
/// groups empty the cache. Level and bits must agree at the end, and no group starves.

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint32_t segments = 88;
constexpr std::uint32_t held_before = 61;  // of the first word of the segment cache: its last three are in use

void use_runs(heap_world& heap, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const simt::lane_mask mask = simt::converge();
        segment_run run;
        const failure_reason why = heap.take_run(mask, 1 + device::from_leader(mask, heap.s.pick(3)), &run);
        heap.s.check(why == failure_reason::none, "no segments, although there is room for all");
        heap.give_run(mask, run);
        if (device::from_leader(mask, heap.s.pick(4)) == 0) {
            device::drain_cache(heap.view, mask);
        }
    }
}

void run_cache_refill(world& w) {
    heap_world heap(w, {.segments = segments, .committed_at_start = segments, .cache_target = 3, .refill_batch = 2});
    segment_run before;
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        heap.s.check(heap.take_run(1, held_before, &before) == failure_reason::none, "no segments in an empty heap");
    });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { use_runs(heap, w.size.operations); });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel({{1}}, [&](simt::thread_position) { heap.give_run(1, before); });
    if (w.s.run() && heap.settle({})) {
        heap.check_clean(0);
        w.s.check(heap.service.longest_free_run() == segments, "what was given back is not one run again");
    }
}

const registrar cache_refill{{"cache_refill",
                              "A small segment cache, refilled, emptied and given back at once.",
                              {{{3, 2}, {3}}, 2},
                              run_cache_refill}};

}  // namespace
}  // namespace orchard::explore
