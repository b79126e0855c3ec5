// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Several services share a heap of more than 128 segments. Warps ask their own shard first, and the others when it has
/// nothing; runs come from one shard, and segments go back to the shard that owns them. All memory can be had again.

#include <array>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

// Pages, a portion, a segment with a tail, and a run.
constexpr std::array<std::uint64_t, 4> shard_sizes{256 << 10, 600 << 10, 2100 << 10, 6 << 20};

void run_shards(world& w) {
    const std::uint32_t shards = 2 + w.s.pick(2);
    const std::uint32_t segments = shards == 2 ? 256 : 192;
    heap_world heap(w, {.segments = segments,
                        .shards = shards,
                        .committed_at_start = w.s.pick(2) * segments,
                        .extent = 32,
                        .cache_target = w.s.pick(3)});
    heap.memory.commit_ns = 2'000;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const std::uint64_t bytes = shard_sizes[w.s.pick(shard_sizes.size())];
            void* const p = heap.take(bytes);
            heap.s.check(p != nullptr, "null, although the heap has room for all");
            heap.give(p, bytes);
        }
    });
    if (!w.s.run()) {
        return;
    }
    // One group takes the longest run that each shard can serve, at once.
    w.s.add_kernel({{1}}, [&](simt::thread_position) {
        std::array<segment_run, 3> runs{};
        const std::uint32_t each = heap.view.segments_per_shard - 16;  // the rest may hold slabs
        for (std::uint32_t shard = 0; shard < shards; ++shard) {
            heap.s.check(heap.take_run(1, each, &runs[shard]) == failure_reason::none, "a shard has no run of its own");
        }
        for (std::uint32_t shard = 0; shard < shards; ++shard) {
            heap.give_run(1, runs[shard]);
        }
    });
    if (w.s.run() && heap.settle({class_of(static_cast<std::uint32_t>(shard_sizes[0]))})) {
        heap.check_empty();
    }
}

const registrar several_shards{
    {"shards", "Two or three services share a heap of more than 128 segments.", {{{3, 2}, {3}}, 2}, run_shards}};

}  // namespace
}  // namespace orchard::explore
