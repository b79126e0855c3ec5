// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A refill was posted whose response never comes, and the heap is full. Every reclaim then waits for the refill until
/// its patience is over, which is as long as the groups that wait for the reclaim wait for its owner. All requests end
/// all the same, with null.

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

void run_lost_refill(world& w) {
    constexpr std::uint64_t patience_ns = 5'000;
    heap_world heap(w, {.segments = 2,
                        .committed_at_start = 2,
                        .extent = 1,
                        .cache_target = 0,  // no other refill, whose arrival would count for this one
                        .refill_batch = 1,
                        .reclaim_patience_ns = patience_ns});
    segment_run all;
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        heap.s.check(heap.take_run(1, 2, &all) == failure_reason::none, "no memory in an empty heap");
    });
    if (!w.s.run()) {
        return;
    }
    auto& refill = heap.view.state->refill_in_flight.word;
    refill.store<simt::order::relaxed>(1);
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            heap.s.check(heap.take(512 << 10) == nullptr, "a page, although all segments are in use");
        }
    });
    if (!w.s.run()) {
        return;
    }
    refill.store<simt::order::relaxed>(0);
    w.s.add_kernel({{1}}, [&](simt::thread_position) { heap.give_run(1, all); });
    if (w.s.run() && heap.settle({})) {
        heap.check_empty();
    }
}

const registrar lost_refill{
    {"lost_refill", "A refill never arrives, and the heap is full.", {{{2, 1}, {1, 1}}, 2}, run_lost_refill}};

}  // namespace
}  // namespace orchard::explore
