// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Pages of the largest classes, four to eight a slab: a warp has hints in several slabs, which one request may have to
/// open. The heap has room for all.

#include <array>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::array<std::uint64_t, 4> large_pages_sizes{256 << 10, 320 << 10, 384 << 10, 512 << 10};

void hold_and_free(heap_world& heap, int rounds) {
    std::array<void*, 2> held{};
    std::array<std::uint64_t, 2> bytes{};
    for (int i = 0; i < rounds; ++i) {
        const std::uint32_t at = heap.s.pick(held.size());
        if (held[at] != nullptr) {
            heap.give(held[at], bytes[at]);
        }
        // One class of a group, or several.
        const simt::lane_mask mask = simt::converge();
        const std::uint32_t of_all = device::from_leader(mask, heap.s.pick(large_pages_sizes.size()));
        bytes[at] = large_pages_sizes[heap.s.pick(4) == 0 ? heap.s.pick(large_pages_sizes.size()) : of_all];
        held[at] = heap.take(bytes[at]);
        heap.s.check(held[at] != nullptr, "no page, although the heap has room for all");
    }
    for (std::uint32_t at = 0; at < held.size(); ++at) {
        if (held[at] != nullptr) {
            heap.give(held[at], bytes[at]);
        }
    }
}

void run_large_pages(world& w) {
    heap_world heap(w, {.segments = 20, .committed_at_start = 6, .extent = 4, .cache_target = w.s.pick(2) * 4});
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { hold_and_free(heap, w.size.operations); });
    if (w.s.run() && heap.settle({class_of(large_pages_sizes[0]), class_of(large_pages_sizes[1]),
                                  class_of(large_pages_sizes[2]), class_of(large_pages_sizes[3])})) {
        heap.check_empty();
    }
}

const registrar large_pages{{"large_pages",
                             "Pages of the largest classes, for warps whose hints lie in several slabs.",
                             {{{9, 2}, {5}}, 2},
                             run_large_pages}};

}  // namespace
}  // namespace orchard::explore
