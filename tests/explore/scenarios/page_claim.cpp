// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// All lanes claim and free pages of several classes at once. One heap has room for all of them, and its slabs are
/// created and retired. Another heap is full when all of its pages are held, and null is right only then.

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::array<std::uint64_t, 2> page_claim_sizes{256 << 10,
                                                        512 << 10};  // eight and four pages a slab: they run out soon

void claim_with_room(heap_world& heap, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const std::uint64_t bytes = page_claim_sizes[heap.s.pick(page_claim_sizes.size())];
        void* const p = heap.take(bytes);
        heap.s.check(p != nullptr, "no page, although the heap has room for all");
        heap.give(p, bytes);
    }
}

/// Returns the same lanes, each in a warp of its own.
std::vector<simt::explore::block_shape> apart(const std::vector<simt::explore::block_shape>& blocks) {
    std::vector<simt::explore::block_shape> result;
    for (const auto& block : blocks) {
        result.emplace_back(std::accumulate(block.begin(), block.end(), 0), 1);
    }
    return result;
}

/// Every lane allocates one page by itself, because a group claims more than it needs for a moment, and another group
/// that reads the bitmap just then misses the pages that will be free again. No page is freed before all lanes have
/// allocated.
void claim_all(world& w, heap_world& heap, std::uint64_t bytes) {
    const std::size_t pages = heap.setup.segments * class_pages(class_of(static_cast<std::uint32_t>(bytes)));
    std::vector<void*> held;
    w.s.add_kernel(apart(w.size.blocks), [&](simt::thread_position) {
        if (void* const p = heap.take(bytes); p != nullptr) {
            held.push_back(p);
        }
    });
    if (!w.s.run()) {
        return;
    }
    w.s.check(held.size() == std::min(pages, w.s.lanes().size()), "no page, although there were some free");
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        while (!held.empty()) {
            void* const p = held.back();
            held.pop_back();
            heap.give(p, bytes);
        }
    });
    (void)w.s.run();
}

void run_page_claim(world& w) {
    // A group that stands still in a reclaim holds the memory that it has collected; other groups wait for it.
    constexpr std::uint64_t patience_ns = 100'000'000;
    const bool full = w.s.pick(3) == 0;
    heap_world heap(
        w,
        full ? heap_setup{.segments = 1, .committed_at_start = 1, .cache_target = 0, .reclaim_patience_ns = patience_ns}
             : heap_setup{});
    if (full) {
        claim_all(w, heap, page_claim_sizes[0]);
        claim_all(w, heap, page_claim_sizes[1]);
    } else {
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { claim_with_room(heap, w.size.operations); });
    }
    if (w.s.run() && heap.settle({class_of(page_claim_sizes[0]), class_of(page_claim_sizes[1])})) {
        heap.check_empty();
    }
}

const registrar page_claim{
    {"page_claim", "Pages claimed and freed by all lanes, slabs come and go.", {{{3, 2}, {3}}, 2}, run_page_claim}};

}  // namespace
}  // namespace orchard::explore
