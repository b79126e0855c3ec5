// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Warp chunks of lanes that request unequal sizes. Each lane hands its block to another lane, mostly of another
/// warp, which frees it. The free of the group's last block returns the chunk.

#include <array>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

using hand = simt::device_word<std::uint64_t>;

constexpr std::array<std::uint64_t, 4> chunks_sizes{(512 << 10) + 8, 700 << 10, 3 << 20, 2 << 20};

std::uint32_t index_of(const world& w, simt::thread_position at) {
    std::uint32_t index = 0;
    for (std::uint32_t b = 0; b < at.block; ++b) {
        for (const int lanes : w.size.blocks[b]) {
            index += static_cast<std::uint32_t>(lanes);
        }
    }
    for (std::uint32_t v = 0; v < at.thread / simt::warp_size; ++v) {
        index += static_cast<std::uint32_t>(w.size.blocks[at.block][v]);
    }
    return index + at.thread % simt::warp_size;
}

void run_chunks(world& w) {
    heap_world heap(w, {.segments = 48, .committed_at_start = 6, .extent = 6});
    const std::uint32_t lanes = lanes_of(w.size);
    std::vector<hand> hands(lanes);
    w.s.name_words(hands.data(), lanes * sizeof(hand), "hand", sizeof(hand));
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        const std::uint32_t me = index_of(w, at);
        const std::uint32_t from = (me + lanes - 2) % lanes;
        for (int i = 0; i < w.size.operations; ++i) {
            void* const p = heap.take(chunks_sizes[(me + static_cast<std::uint32_t>(i)) % chunks_sizes.size()]);
            heap.s.check(p != nullptr, "no chunk, although the heap has room for all");
            // Each entry of `hands` holds one block; the lane that takes the block empties the entry.
            while (hands[me].load<simt::order::acquire>() != 0) {
                simt::pause(200);
            }
            hands[me].store<simt::order::release>(reinterpret_cast<std::uintptr_t>(p));
            std::uint64_t given = 0;
            while ((given = hands[from].load<simt::order::acquire>()) == 0) {
                simt::pause(200);
            }
            hands[from].store<simt::order::release>(0);
            heap.give(reinterpret_cast<void*>(given),
                      chunks_sizes[(from + static_cast<std::uint32_t>(i)) % chunks_sizes.size()]);
        }
    });
    if (w.s.run() && heap.settle({})) {
        heap.check_empty();
        heap.check_counts();
    }
}

const registrar chunks{
    {"chunks", "Warp chunks of unequal sizes, freed by lanes of other warps.", {{{3, 2}, {3}}, 1}, run_chunks}};

}  // namespace
}  // namespace orchard::explore
