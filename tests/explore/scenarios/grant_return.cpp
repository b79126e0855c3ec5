// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs of segments are requested and returned, either in a heap that is nearly full, or while a group returns segments
/// that it does not have: such a return is rejected and counted, and changes nothing else.

#include "tests/explore/heap_world.hpp"

namespace orchard::explore {
namespace {

// Runs of at most two, first fit: the runs that 8 lanes can hold at once never reach the last segment.
constexpr std::uint32_t roomy_segments = 32;
constexpr std::uint32_t tight_segments = 8;

/// Returns a segment that is free all the time. Returns true if the service rejected it.
bool give_back_wrongly(heap_world& heap, simt::lane_mask mask) {
    const auto& box = heap.view.mailbox;
    const device::cache_completion completion{heap.view};
    mailbox::request request{mailbox::request_kind::give_back, 0, 0, {segment_index{roomy_segments - 1}, 1}, false};
    const device::ticket r = box.post(mask, request, false, completion);
    heap.s.check(r.failure == failure_reason::none, "no slot for a return");
    const device::outcome o = box.wait(mask, r, completion);
    return o.failure == failure_reason::none && o.result.status == mailbox::response_status::rejected;
}

void run_grant_return(world& w) {
    const bool tight = w.s.pick(2) == 0;
    const std::uint32_t segments = tight ? tight_segments : roomy_segments;
    heap_world heap(
        w, {.segments = segments, .committed_at_start = segments, .cache_target = tight ? 2u : 0u, .refill_batch = 1});
    std::uint32_t refused = 0;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        for (int i = 0; i < w.size.operations; ++i) {
            const simt::lane_mask mask = simt::converge();
            const std::uint32_t k = 1 + device::from_leader(mask, heap.s.pick(2));
            segment_run run;
            const failure_reason why = heap.take_run(mask, k, &run);
            if (why == failure_reason::none) {
                heap.give_run(mask, run);
            }
            heap.s.check(why == failure_reason::none || (tight && (why == failure_reason::out_of_memory_device_budget ||
                                                                   why == failure_reason::fragmented)),
                         "no segments, for no reason");
            if (!tight && at.block == 0 && at.thread == 0) {
                heap.s.check(give_back_wrongly(heap, simt::lane_mask{1}), "a double return was not refused");
                ++refused;
            }
        }
    });
    if (w.s.run() && heap.settle({})) {
        heap.check_clean(0, refused);
        w.s.check(heap.service.longest_free_run() == segments, "what was given back is not one run again");
    }
}

const registrar grant_return{{"grant_return",
                              "Runs of segments out of a nearly full heap; returns that are wrong.",
                              {{{3, 2}, {3}}, 2},
                              run_grant_return}};

}  // namespace
}  // namespace orchard::explore
