// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs of many lengths, held for a while, so that the OR-tree is in pieces; refills that take what there is; requests
/// parked for growth, which fails at first and recovers. In the end the whole heap is one run again.

#include <algorithm>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint32_t tree_segments = 20;

bool may_fail(failure_reason why, bool growth_fails) {
    return why == failure_reason::out_of_memory_device_budget || why == failure_reason::fragmented ||
           (growth_fails && why == failure_reason::commit_failed);
}

void use_runs(heap_world& heap, int rounds, bool growth_fails) {
    const simt::lane_mask mask = simt::converge();
    segment_run held{segment_index{0}, 0};
    for (int i = 0; i < rounds; ++i) {
        segment_run run;
        const failure_reason why = heap.take_run(mask, 1 + device::from_leader(mask, heap.s.pick(5)), &run);
        heap.s.check(why == failure_reason::none || may_fail(why, growth_fails), "no segments, for no reason");
        if (held.count != 0) {
            heap.give_run(mask, held);
            held.count = 0;
        }
        if (why == failure_reason::none) {
            held = run;
        }
    }
    if (held.count != 0) {
        heap.give_run(mask, held);
    }
}

void run_or_tree_service(world& w) {
    heap_world heap(
        w, {.segments = tree_segments, .committed_at_start = 5, .extent = 3, .cache_target = 4, .refill_batch = 3});
    heap.memory.failures_left = static_cast<int>(w.s.pick(3));
    heap.memory.commit_ns = 2'000;
    const bool growth_fails = heap.memory.failures_left != 0;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { use_runs(heap, w.size.operations, growth_fails); });
    if (!w.s.run() || !heap.settle({})) {
        return;
    }
    heap.check_clean(0);
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        segment_run all;
        failure_reason why = failure_reason::commit_failed;
        for (int i = 0; i < 3 && why == failure_reason::commit_failed; ++i) {
            why = heap.take_run(1, tree_segments, &all);
        }
        heap.s.check(why == failure_reason::none, "the heap is empty, and all of it is not to be had");
        heap.give_run(1, all);
    });
    if (w.s.run() && heap.settle({})) {
        heap.check_clean(0);
    }
}

const registrar or_tree_service{{"or_tree_service",
                                 "Runs of many lengths; growth that fails and recovers.",
                                 {{{3, 2}, {3}}, 2},
                                 run_or_tree_service}};

}  // namespace
}  // namespace orchard::explore
