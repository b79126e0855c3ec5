// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Blocks that the host frees: it writes them into its ring, and device threads free them when they next request
/// memory, while other threads allocate the same memory. Each block is freed once, and an owner's writes happen before
/// those of the next owner.

#include <array>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t kib = 1 << 10;
/// Pages, blocks of portions, whole segments.
constexpr std::array<std::uint64_t, 3> host_frees_sizes{512 * kib, 700 * kib, 2048 * kib};
constexpr int max_blocks = 16;

/// A block that device threads hand to the host.
struct handed_block {
    simt::device_word<std::uint64_t> place;  // its offset in the heap, plus one; 0: empty
    std::uint64_t bytes = 0;                 // written before `place`, by the simulation's one thread
};

/// The host's side of the ring, played by a lane that does nothing else; copies into device memory arrive in order.
void free_as_host(heap_world& heap, std::vector<handed_block>& handed) {
    auto& ring = *heap.view.host_frees;
    std::uint64_t posted = 0;
    for (int looks = 0; looks < 200 && posted < handed.size(); ++looks) {
        for (handed_block& b : handed) {
            // Acquires the owner's writes; pairs with the store by which the owner hands the block over.
            const std::uint64_t place = b.place.load<simt::order::acquire>();
            if (place == 0) {
                continue;
            }
            b.place.store<simt::order::relaxed>(0);
            const std::uint64_t offset = place - 1;
            heap.unmark(heap.view.base + offset, b.bytes);
            ring.offset[posted % device::host_free_ring::capacity].store<simt::order::relaxed>(offset);
            ring.posted.store<simt::order::release>(++posted);  // pairs with `take`
        }
        simt::pause(500);
    }
}

void run_host_frees(world& w) {
    heap_world heap(w, {.segments = 8, .committed_at_start = 6, .extent = 1, .cache_target = 2});
    std::vector<handed_block> handed(max_blocks);
    std::size_t next = 0;
    w.s.add_kernel({{1}}, [&](simt::thread_position) { free_as_host(heap, handed); });
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint64_t bytes = host_frees_sizes[heap.s.pick(host_frees_sizes.size())];
            void* const p = heap.take(bytes);
            if (p == nullptr) {
                continue;  // all blocks are held, or wait to be freed
            }
            if (next < handed.size() && heap.s.pick(2) == 0) {
                handed_block& b = handed[next++];
                b.bytes = bytes;
                b.place.store<simt::order::release>(static_cast<std::uint64_t>(static_cast<char*>(p) - heap.view.base) +
                                                    1);
            } else {
                heap.give(p, bytes);
            }
        }
    });
    if (!w.s.run()) {
        return;
    }
    // Frees the blocks that were handed over too late for the host.
    w.s.add_kernel({{2}}, [&](simt::thread_position at) {
        for (const handed_block& b : handed) {
            const std::uint64_t place = b.place.load<simt::order::acquire>();
            if (at.thread == 0 && place != 0) {
                heap.give(heap.view.base + place - 1, b.bytes);
            }
        }
        device::settle(heap.view, 3, false);
    });
    if (w.s.run() && heap.settle({class_of(host_frees_sizes[0])})) {
        heap.check_empty();
        w.s.check(heap.requests().frees == heap.requests().allocations, "a free was lost, or done twice");
    }
}

const registrar host_frees{{"host_frees",
                            "The host frees blocks, which device threads find in its ring.",
                            {{{3, 2}, {3}}, 3},
                            run_host_frees}};

}  // namespace
}  // namespace orchard::explore
