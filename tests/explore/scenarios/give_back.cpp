// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The service releases unused extents while groups allocate and free memory, and growth commits and decommits slowly.
/// Segments that a group gets are committed, every group is served, and in the end all extents can be released.

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

void run_give_back(world& w) {
    constexpr std::uint32_t most = 3;
    heap_world heap(w, {.segments = 40,
                        .committed_at_start = 0,
                        .extent = 1 + w.s.pick(3),
                        .ahead = w.s.pick(2),
                        .cache_target = w.s.pick(2) * 2,
                        .gives_back = true});
    heap.memory.commit_ns = 500 << w.s.pick(3);
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        const simt::lane_mask mask = simt::converge();
        for (int i = 0; i < w.size.operations; ++i) {
            segment_run run;
            const std::uint32_t k = 1 + device::from_leader(mask, heap.s.pick(most));
            heap.s.check(heap.take_run(mask, k, &run) == failure_reason::none,
                         "no segments, although there is room for all");
            heap.s.check(heap.memory.has(run), "memory was taken back that is in use");
            heap.give_run(mask, run);
        }
    });
    const bool ended = w.s.run();
    heap.setup.gives_back = false;  // the state cannot be checked in the middle of a release
    if (ended && heap.settle({})) {
        heap.check_clean(0);
        w.s.check(heap.service.counters().segments_released.get() == 0 || heap.memory.committed <= 40,
                  "more is committed than there is");
    }
}

const registrar give_back{{"give_back",
                           "The service gives up unused extents while others ask for memory.",
                           {{{3, 2}, {3}}, 3},
                           run_give_back}};

}  // namespace
}  // namespace orchard::explore
