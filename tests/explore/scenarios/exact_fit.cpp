// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The free pages of a heap are exactly as many as the allocating lanes, in several places: every lane gets one,
/// whichever lanes allocate together.

#include <utility>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint32_t large_page = 512 << 10;
/// A slab has 292 such pages: five words of a bitmap, which a lane of a scan reads in two steps.
constexpr std::uint32_t small_page = 7 << 10;

/// One lane takes every page there is.
bool take_all(world& w, heap_world& heap, std::uint32_t page_bytes, std::vector<void*>& held) {
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        while (held.size() < heap.setup.segments * class_pages(class_of(page_bytes))) {
            held.push_back(heap.take(page_bytes));
            heap.s.check(held.back() != nullptr, "no page, although no other group asks");
        }
        heap.s.check(heap.take(page_bytes) == nullptr, "a page, although all of them are held");
    });
    return w.s.run();
}

/// The lanes free as many pages as there are of them, here and there.
bool free_some(world& w, heap_world& heap, std::uint32_t page_bytes, std::vector<void*>& held) {
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        std::swap(held[heap.s.pick(static_cast<std::uint32_t>(held.size()))], held.back());
        void* const p = held.back();
        held.pop_back();
        heap.give(p, page_bytes);
    });
    return w.s.run();
}

bool all_ask(world& w, heap_world& heap, std::uint32_t page_bytes, std::vector<void*>& held) {
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        void* const p = heap.take(page_bytes);
        heap.s.check(p != nullptr, "no page, although there is one for each lane");
        held.push_back(p);
    });
    return w.s.run();
}

/// @param more  segments beyond those that the lanes need: up to this many
void run_fit(world& w, std::uint32_t page_bytes, std::uint32_t more) {
    const std::uint32_t pages_of_slab = class_pages(class_of(page_bytes));
    const std::uint32_t segments = (lanes_of(w.size) + pages_of_slab - 1) / pages_of_slab + w.s.pick(more + 1);
    heap_world heap(
        w, {.segments = segments, .committed_at_start = segments, .cache_target = w.s.pick(3), .refill_batch = 1});
    std::vector<void*> held;
    if (!take_all(w, heap, page_bytes, held)) {
        return;
    }
    for (int round = 0; round < w.size.operations; ++round) {
        if (!free_some(w, heap, page_bytes, held) || !all_ask(w, heap, page_bytes, held)) {
            return;
        }
    }
    w.s.add_kernel({{2}}, [&](simt::thread_position) {
        while (!held.empty()) {
            void* const p = held.back();
            held.pop_back();
            heap.give(p, page_bytes);
        }
    });
    if (w.s.run() && heap.settle({class_of(page_bytes)})) {
        heap.check_empty();
    }
}

void run_exact_fit(world& w) { run_fit(w, large_page, 2); }
void run_exact_fit_words(world& w) { run_fit(w, small_page, 1); }

const registrar exact_fit{
    {"exact_fit", "As many pages are left as lanes ask, in groups.", {{{9, 4}, {5}}, 1}, run_exact_fit}};
const registrar exact_fit_words{{"exact_fit_words",
                                 "The same, in slabs whose bitmaps have several words.",
                                 {{{5, 1}, {3}}, 1},
                                 run_exact_fit_words}};

}  // namespace
}  // namespace orchard::explore
