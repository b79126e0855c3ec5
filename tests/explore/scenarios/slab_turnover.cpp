// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A few segments are slabs of one class, of another, and chunks in turn, while lanes search in them at their hints. A
/// lane that retires a slab allocates another size at once. Pages and chunks are freed by other warps than those that
/// took them, even while a slab is being scanned. A free reads the descriptor of its segment before it changes a bit;
/// the free of a chunk's block changes no bit of a bitmap.

#include <array>
#include <set>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

// Two words of bitmap a slab, one word with four pages, and a whole segment.
constexpr std::array<std::uint64_t, 3> slab_turnover_sizes{16 << 10, 512 << 10, 1 << 20};
constexpr std::uint32_t page_sizes = 2;  // the first ones
constexpr std::uint64_t size_mask = 3;
constexpr std::uint32_t place_count = 3;

/// Where lanes leave pages for each other. A block's size is in the lowest bits of its address.
struct exchange_place {
    simt::device_word<std::uint64_t> page;
};

/// Looks for frees of chunks that touch a bitmap.
class chunk_frees {
public:
    explicit chunk_frees(heap_world& heap) : heap_{heap} {
        // Where chunks' blocks begin, at multiples of a segment's half, if they were pages of the smallest class.
        constexpr std::uint32_t middle = segment_bytes / 2 / 16 / 64;
        for (std::uint32_t i = 0; i < heap.setup.segments; ++i) {
            for (const std::uint32_t word : {0u, middle}) {
                heap.s.watch(&heap.view.bitmap(i)[word], [this](const auto&) {
                    heap_.s.check(!frees_.contains(heap_.s.self()), "a free of a chunk touched a bitmap");
                });
            }
        }
    }
    void give(void* p, std::uint64_t bytes) {
        frees_.insert(heap_.s.self());
        heap_.give(p, bytes);
        frees_.erase(heap_.s.self());
    }

private:
    heap_world& heap_;
    std::set<simt::explore::actor_id> frees_;  // actors that are in such a free
};

void give_any(heap_world& heap, chunk_frees& chunks, std::uint64_t tagged) {
    void* const p = reinterpret_cast<void*>(tagged & ~size_mask);
    if (p != nullptr && (tagged & size_mask) >= page_sizes) {
        chunks.give(p, slab_turnover_sizes[tagged & size_mask]);
    } else if (p != nullptr) {
        heap.give(p, slab_turnover_sizes[tagged & size_mask]);
    }
}

void retire(heap_world& heap, std::uint32_t which) {
    device::retire_empty_slabs(heap.view, simt::lane_mask{1} << simt::lane_id(),
                               class_of(static_cast<std::uint32_t>(slab_turnover_sizes[which])));
}

void turn_over(heap_world& heap, chunk_frees& chunks, std::array<exchange_place, place_count>& places, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const std::uint32_t which = heap.s.pick(slab_turnover_sizes.size());
        void* const p = heap.take(slab_turnover_sizes[which]);
        heap.s.check(p != nullptr, "no memory, although the heap has room for all");
        auto& place = places[heap.s.pick(place_count)].page;
        // Releases what this lane wrote to the one, and acquires what another wrote to the other.
        give_any(heap, chunks, place.exchange<simt::order::acq_rel>(reinterpret_cast<std::uintptr_t>(p) | which));
        if (heap.s.pick(2) == 0) {
            retire(heap, heap.s.pick(page_sizes));
        }
    }
}

void run_turnover(world& w, std::uint32_t cache_target, bool unzeroed) {
    constexpr std::uint32_t segments = 24;
    heap_world heap(w, {.segments = segments,
                        .committed_at_start = segments,
                        .cache_target = cache_target,
                        .refill_batch = 1,
                        .unzeroed = unzeroed});
    chunk_frees chunks(heap);
    std::array<exchange_place, place_count> places{};
    w.s.name_words(places.data(), sizeof(places), "place", sizeof(places[0]));
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { turn_over(heap, chunks, places, w.size.operations); });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel({{static_cast<int>(place_count)}}, [&](simt::thread_position at) {
        give_any(heap, chunks, places[at.thread].page.exchange<simt::order::acq_rel>(0));
    });
    if (!w.s.run() || !heap.settle({class_of(slab_turnover_sizes[0]), class_of(slab_turnover_sizes[1])})) {
        return;
    }
    heap.check_empty();
    w.s.check(heap.sum(device::counter::slabs_published) == heap.sum(device::counter::slabs_retired),
              "a slab was published and not retired");
}

void run_slab_turnover(world& w) { run_turnover(w, w.s.pick(3), false); }
void run_unzeroed(world& w) { run_turnover(w, 0, true); }

const registrar slab_turnover{{"slab_turnover",
                               "Segments are slabs of several classes and chunks in turn; other warps free them.",
                               {{{3, 2}, {3}}, 2},
                               run_slab_turnover}};
const registrar unzeroed{{"slab_turnover_unzeroed",
                          "The same, where bitmaps hold anything at first, and all segments come from the host.",
                          {{{3, 2}, {3}}, 1},
                          run_unzeroed}};

}  // namespace
}  // namespace orchard::explore
