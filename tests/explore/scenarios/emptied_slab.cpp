// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A slab has one free page, which an allocating lane may miss at first, and is then emptied. Other lanes make requests
/// that the heap can never serve; they retire the slab and return its segment to the host. Memory is available all the
/// time, so the lane must get a page.

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

// The bitmap has two words, of which a probe at random words may miss one.
constexpr std::uint64_t page = 16 << 10;
constexpr int pages_of_a_lane = 4;

void run_emptied_slab(world& w) {
    constexpr std::uint64_t patience_ns = 100'000'000;
    heap_world heap(w, {.segments = 2,
                        .committed_at_start = 2,
                        .extent = 1,
                        .cache_target = w.s.pick(2),
                        .refill_batch = 1,
                        .reclaim_patience_ns = patience_ns});
    for (int round = 0; round < w.size.operations; ++round) {
        void* segment = nullptr;
        std::vector<void*> held;
        w.s.add_kernel({{1}}, [&](simt::thread_position) { segment = heap.take(segment_bytes); });
        if (!w.s.run()) {
            return;
        }
        w.s.add_kernel({{32}}, [&](simt::thread_position) {
            for (int i = 0; i < pages_of_a_lane; ++i) {
                held.push_back(heap.take(page));
            }
        });
        if (!w.s.run()) {
            return;
        }
        // Therefore the class is known to have no slab.
        w.s.add_kernel({{1}}, [&](simt::thread_position) {
            heap.s.check(heap.take(page) == nullptr, "a page, although all of them are held");
        });
        if (!w.s.run()) {
            return;
        }
        w.s.check(segment != nullptr && std::ranges::count(held, nullptr) == 0, "null, although there was room");
        w.s.add_kernel({{1}}, [&](simt::thread_position) {
            std::swap(held[heap.s.pick(static_cast<std::uint32_t>(held.size()))], held.back());
            heap.give(held.back(), page);
            held.pop_back();
        });
        if (!w.s.run()) {
            return;
        }
        void* got = nullptr;
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
            if (at.block == 0) {
                got = heap.take(page);
                heap.s.check(got != nullptr, "null, although a page was free, or a segment, all the time");
            } else if (at.block == 1) {
                while (!held.empty()) {
                    void* const p = held.back();
                    held.pop_back();
                    heap.give(p, page);
                }
            } else {
                heap.s.check(heap.take(2 * segment_bytes) == nullptr, "two segments, of which one was in use");
            }
        });
        if (!w.s.run()) {
            return;
        }
        w.s.add_kernel({{1}}, [&](simt::thread_position) {
            heap.give(segment, segment_bytes);
            heap.give(got, page);
        });
        if (!w.s.run()) {
            return;
        }
    }
    if (heap.settle({class_of(page)})) {
        heap.check_empty();
    }
}

const registrar emptied_slab{{"emptied_slab",
                              "A slab is emptied and retired while a group looks for a page.",
                              {{{1}, {32}, {1, 1}}, 1},
                              run_emptied_slab}};

}  // namespace
}  // namespace orchard::explore
