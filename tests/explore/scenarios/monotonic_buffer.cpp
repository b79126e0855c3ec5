// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Lanes allocate from one buffer, alone and as groups, beside lanes that take and free blocks of its chunks' size;
/// also when the heap has no memory for all of them. No object has a byte of another one or of a block, an object keeps
/// what was written into it, and nothing is left in the heap after `clear`.

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "device/containers/monotonic_buffer.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

/// Of the first chunk: 4 KiB.
constexpr std::uint32_t buffer_log_first = 12;
constexpr std::uint64_t buffer_chunk = std::uint64_t{1} << buffer_log_first;
/// Bytes of objects. The last one is longer than the first eight chunks, which are left out for it.
constexpr std::array<std::uint64_t, 4> buffer_sizes{16, 200, 1'400, 5'000};

/// Takes a block as large as a chunk, writes where the second object of a chunk may begin, and frees the block. Hence a
/// lane that gets an object there must have acquired the free.
void use_block(heap_world& heap) {
    auto* const block = static_cast<char*>(heap.take(buffer_chunk));
    if (block == nullptr) {
        return;
    }
    for (const std::uint64_t bytes : {16, 208, 1'408}) {
        reinterpret_cast<simt::plain<std::uint64_t>*>(block + bytes)->set(bytes);
    }
    heap.give(block, buffer_chunk);
}

void run_monotonic_buffer(world& w) {
    const std::uint32_t segments = 1 + 3 * w.s.pick(2);
    heap_world heap(w, {.segments = segments, .committed_at_start = 1, .extent = 1, .cache_target = w.s.pick(2)});
    monotonic_buffer_state state{};
    w.s.name_words(&state, sizeof(state), "buffer", 8);
    const monotonic_buffer_ref buffer(heap.ref, &state, buffer_log_first);
    // Most runs have no object that leaves chunks out.
    const auto kinds = static_cast<std::uint32_t>(buffer_sizes.size()) - (w.s.pick(4) == 0 ? 0u : 1u);
    std::vector<std::pair<void*, std::uint64_t>> objects;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            if (w.s.pick(4) == 0) {
                use_block(heap);
            }
            const std::uint64_t bytes = buffer_sizes[w.s.pick(kinds)];
            void* const object = buffer.allocate(bytes);
            if (object != nullptr) {
                heap.mark(object, bytes);
                objects.emplace_back(object, bytes);
            }
        }
    });
    if (!w.s.run()) {
        return;
    }
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        for (const auto& [object, bytes] : objects) {
            heap.s.check(reinterpret_cast<std::uintptr_t>(object) % 16 == 0,
                         absl::StrFormat("an object of %d B is not aligned to 16 B", bytes));
            heap.unmark(object, bytes);
        }
        buffer.clear();
    });
    if (w.s.run() && heap.settle({class_of(buffer_chunk), class_of(2 * buffer_chunk), class_of(4 * buffer_chunk),
                                  class_of(8 * buffer_chunk)})) {
        heap.check_empty();
    }
}

const registrar monotonic_buffer_scenario{{"monotonic_buffer",
                                           "Lanes allocate from a buffer, also beyond the memory that there is.",
                                           {{{3, 2}, {3}}, 4},
                                           run_monotonic_buffer}};

}  // namespace
}  // namespace orchard::explore
