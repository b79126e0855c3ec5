// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A lane stops for good while its group creates a slab. Groups that wait for the slab get null after the deadline, and
/// no group is given memory of another.

#include "absl/strings/str_format.h"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint32_t maker_bytes = 512 << 10;
constexpr std::uint64_t maker_timeout_ns = 100'000;
constexpr std::uint64_t look_ns = 50'000;  // a look at the clock, among the steps of all others

/// Stops the lane that reserves one of the first indices of the class's table, at that or a later change.
void stop_maker(heap_world& heap, std::uint32_t page_class) {
    const std::uint32_t index = heap.s.pick(2);
    heap.s.watch(&heap.view.table(page_class)[index], [&heap, stopped = false](const auto& a) mutable {
        if (!stopped && a.after == device::growing_entry) {
            stopped = true;
            heap.s.stop_for_good(heap.s.self());
        }
    });
}

void run_slab_maker_death(world& w) {
    heap_world heap(w, {.segments = 8,
                        .committed_at_start = 8,
                        .cache_target = w.s.pick(3),
                        .timeout_ns = maker_timeout_ns,
                        .reclaim_patience_ns = 20'000});
    stop_maker(heap, class_of(maker_bytes));
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint64_t began = simt::clock_ns();
            void* const p = heap.take(maker_bytes);
            const std::uint64_t waited = simt::clock_ns() - began;
            // 1.5 timeouts from the first look at the clock, before which a request to the host may have taken as long.
            heap.s.check(waited <= 3 * maker_timeout_ns + look_ns + heap.s.stood_still_ns(),
                         absl::StrFormat("a request waited for %d ns, longer than three deadlines", waited));
            if (p != nullptr) {
                heap.give(p, maker_bytes);
            }
        }
    });
    if (!w.s.run()) {
        return;
    }
    // A request of another class is served, once the service has given a sign of life, if it was taken for dead.
    heap.view.mailbox.timeout_ns = 1'000'000'000;
    heap.ref = heap_ref(heap.view);
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        void* p = heap.take(16 << 10);
        for (int i = 0; i < 20 && p == nullptr; ++i) {
            simt::pause(1'000'000);
            p = heap.take(16 << 10);
        }
        heap.s.check(p != nullptr, "no page of another class, although there is room");
        heap.give(p, 16 << 10);
    });
    if (w.s.run()) {
        w.s.check(heap.service.validate().ok(), "the service's structures disagree");
    }
}

const registrar slab_maker_death{
    {"slab_maker_death", "A lane that creates a slab stops for good.", {{{3, 2}, {3}}, 2}, run_slab_maker_death}};

}  // namespace
}  // namespace orchard::explore
