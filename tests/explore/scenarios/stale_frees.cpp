// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Blocks of a chunk are freed a second time while other chunks begin at its place: the second free is counted as
/// invalid, and frees no block of another owner.

#include <array>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t kib = 1 << 10;

/// Two blocks of one chunk: a portion, or a segment and its tail. The second block begins 24 KiB after the beginning of
/// a leaf, where no block of `later_sizes` begins. Both pairs have equally many leaves, so that they get the same
/// memory.
using two_sizes = std::array<std::uint64_t, 2>;
constexpr std::array<two_sizes, 2> first_sizes{{{600 * kib, 700 * kib}, {2048 * kib + 600 * kib, 700 * kib}}};
constexpr std::array<two_sizes, 2> later_sizes{{{530 * kib, 780 * kib}, {2048 * kib + 530 * kib, 780 * kib}}};

struct held_block {
    void* p;
    std::uint64_t bytes;
};

void run_stale_frees(world& w) {
    heap_world heap(w, {.segments = 32, .committed_at_start = 16, .extent = 8});
    std::uint64_t wrong = 0;
    for (int round = 0; round < w.size.operations; ++round) {
        const std::uint32_t kind = w.s.pick(first_sizes.size());
        const two_sizes& sizes = first_sizes[kind];
        void* stale = nullptr;
        w.s.add_kernel({{2}}, [&](simt::thread_position at) {
            void* const p = heap.take(sizes[at.thread]);
            heap.s.check(p != nullptr, "no chunk, although the heap has room for all");
            stale = at.thread == 1 ? p : stale;
            heap.give(p, sizes[at.thread]);
        });
        if (!w.s.run()) {
            return;
        }
        if (reinterpret_cast<std::uintptr_t>(stale) % big_page_bytes == 0) {
            continue;  // the lanes got a chunk each: another's may begin at the same place
        }
        std::vector<held_block> held;
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
            // The first two lanes of a warp allocate together; the other lanes free the freed blocks again.
            const std::uint32_t lane = at.thread % simt::warp_size;
            if (lane >= 2 || heap.s.pick(4) == 0) {
                heap.ref.free(stale);
                ++wrong;
                return;
            }
            const std::uint64_t bytes = later_sizes[kind][lane];
            held.push_back({heap.take(bytes), bytes});
            heap.s.check(held.back().p != nullptr, "no chunk, although the heap has room for all");
        });
        if (!w.s.run()) {
            return;
        }
        w.s.check(heap.sum(device::counter::invalid_frees) == wrong, "a second free was taken for a right one");
        w.s.add_kernel({{1}}, [&](simt::thread_position) {
            for (const held_block& b : held) {
                heap.give(b.p, b.bytes);
            }
        });
        if (!w.s.run()) {
            return;
        }
    }
    if (heap.settle({})) {
        heap.check_clean(0, 0, wrong);
        heap.check_counts();
    }
}

const registrar stale_frees{{"stale_frees",
                             "Blocks of chunks are freed a second time while others get their memory.",
                             {{{3, 2}, {3}}, 2},
                             run_stale_frees}};

}  // namespace
}  // namespace orchard::explore
