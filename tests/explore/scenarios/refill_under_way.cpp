// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// As many groups request a segment as there are segments, while refills are on their way to the segment cache. Each
/// group gets one, first from a new heap, then from freed segments. The segment cache may hold all of them: segments
/// that a group is about to return to the host count as taken.

#include <map>

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

void run_refill_under_way(world& w) {
    std::uint32_t warps = 0;
    for (const simt::explore::block_shape& block : w.size.blocks) {
        warps += static_cast<std::uint32_t>(block.size());
    }
    // Other groups wait for a group that reclaims, however long it stands still.
    constexpr std::uint64_t patience_ns = 100'000'000;
    heap_world heap(w, {.segments = warps,
                        .committed_at_start = warps,
                        .cache_target = (warps + 1) / 2,
                        .refill_batch = 1,
                        .reclaim_patience_ns = patience_ns});
    for (int round = 0; round < w.size.operations; ++round) {
        std::map<std::uint64_t, void*> got;  // of each warp
        w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
            void*& mine = got[at.global_warp()];
            mine = heap.take(segment_bytes);
            heap.s.check(mine != nullptr, "null, although there are as many segments as are asked for");
        });
        if (!w.s.run()) {
            return;
        }
        w.s.add_kernel(w.size.blocks,
                       [&](simt::thread_position at) { heap.give(got[at.global_warp()], segment_bytes); });
        if (!w.s.run()) {
            return;
        }
    }
    if (heap.settle({})) {
        heap.check_empty();
    }
}

const registrar refill_under_way{{"refill_under_way",
                                  "As many ask for a segment as there are, beside refills.",
                                  {{{1, 1}, {1}, {1}}, 2},
                                  run_refill_under_way}};

// With more groups, some are rejected and wait for reclaims, while others have their segment already and post refills.
const registrar refill_after_lack{
    {"refill_after_lack",
     "As many ask for a segment as there are, twelve groups: refills of some, reclaims of others.",
     {{{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}, 2},
     run_refill_under_way}};

}  // namespace
}  // namespace orchard::explore
