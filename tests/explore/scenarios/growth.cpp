// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A heap that begins without memory: every request waits for a slow commit. All requests are served, each as soon as
/// there is enough memory, from the lowest segments on, and no more is committed than was requested.

#include <algorithm>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

void run_growth(world& w) {
    constexpr std::uint32_t most = 4;
    heap_world heap(w, {.segments = 40,
                        .committed_at_start = 0,
                        .extent = 2,
                        .ahead = 0,
                        .apart_one_of = w.s.pick(3),
                        .cache_target = 0});
    const std::uint32_t commit_ns = 500 << w.s.pick(3);
    heap.memory.commit_ns = commit_ns;
    std::uint32_t asked = 0;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        const simt::lane_mask mask = simt::converge();
        segment_run runs[2];
        for (int i = 0; i < 2; ++i) {
            const std::uint32_t k = 1 + device::from_leader(mask, heap.s.pick(i == 0 ? most : 1));
            asked += device::is_leader(mask) ? k : 0;
            heap.s.check(heap.take_run(mask, k, &runs[i]) == failure_reason::none,
                         "no segments, although there is room for all");
            heap.s.check(to_underlying(runs[i].first) + k <= heap.memory.committed, "a segment that is not committed");
        }
        heap.give_run(mask, runs[1]);
        heap.give_run(mask, runs[0]);
    });
    if (w.s.run() && heap.settle({})) {
        heap.check_clean(0);
        const auto& counters = heap.service.counters();
        w.s.check(counters.requests_parked.get() != 0, "no request had to wait for growth");
        w.s.check(heap.memory.committed <= asked + most + heap.setup.extent, "more was committed than was asked for");
        // More if the service is just taking over the memory of the last commit.
        w.s.check(heap.service.longest_free_run() >= counters.segments_committed.get(),
                  "what was given back is not one run again");
    }
}

const registrar growth{
    {"growth", "A heap that begins with nothing, and commits that are slow.", {{{3, 2}, {3}}, 1}, run_growth}};

}  // namespace
}  // namespace orchard::explore
