// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// All lanes free the same blocks, each in an order of its own, alone and in groups. One free of each block succeeds,
/// the other frees are counted as invalid, and no memory is lost.

#include <array>
#include <vector>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

// Pages of two classes, and the blocks of a chunk.
constexpr std::array<std::uint64_t, 3> double_free_sizes{16 << 10, 512 << 10, 600 << 10};
constexpr std::uint32_t block_count = 3;

void free_all_of(heap_world& heap, const std::vector<void*>& held) {
    const std::uint32_t first = heap.s.pick(block_count);
    for (std::uint32_t i = 0; i < block_count; ++i) {
        if (heap.s.pick(4) == 0) {
            simt::pause(100);  // arrives late
        }
        heap.ref.free(held[(first + i) % block_count]);
    }
}

void run_double_free(world& w) {
    heap_world heap(w);
    std::uint64_t wrong = 0;
    for (int round = 0; round < w.size.operations; ++round) {
        const std::uint64_t bytes = double_free_sizes[w.s.pick(double_free_sizes.size())];
        std::vector<void*> held;
        w.s.add_kernel({{static_cast<int>(block_count)}}, [&](simt::thread_position) {
            held.push_back(heap.take(bytes));
            heap.s.check(held.back() != nullptr, "no block, although the heap has room for all");
            heap.unmark(held.back(), bytes);
        });
        if (!w.s.run()) {
            return;
        }
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position) { free_all_of(heap, held); });
        if (!w.s.run()) {
            return;
        }
        wrong += block_count * (w.s.lanes().size() - 1);
        w.s.check(heap.sum(device::counter::invalid_frees) == wrong, "not all but one of the frees were counted");
        w.s.check(heap.requests().frees == heap.requests().allocations, "a block is still in use");
    }
    if (heap.settle({class_of(double_free_sizes[0]), class_of(double_free_sizes[1])})) {
        heap.check_clean(0, 0, wrong);
    }
}

const registrar double_free{
    {"double_free", "All lanes free the same blocks at once.", {{{3, 2}, {3}}, 2}, run_double_free}};

}  // namespace
}  // namespace orchard::explore
