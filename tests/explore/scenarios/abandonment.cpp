// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Groups give up waiting while the growth of the heap is slow: each wait ends with a response or a reason, and a late
/// grant is not lost.

#include <array>

#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::array<std::uint64_t, 3> timeouts{2'000, 10'000, 50'000};

void run_abandonment(world& w) {
    mailbox_world m(w, {.segments = 16,
                        .committed_at_start = 2,
                        .extent = 1,
                        .ahead = 0,
                        .shape = {8, 8, 1},
                        .timeout_ns = timeouts[w.s.pick(timeouts.size())],
                        .lost_after_ns = 1'000'000'000});
    m.heap.memory.commit_ns = 10'000;
    m.watch_protocol();
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const simt::lane_mask mask = simt::converge();
            const reply r = m.ask(mask, 1);
            m.s.check(r.answered() || r.why == failure_reason::commit_blocked ||
                          r.why == failure_reason::service_not_responding,
                      "a wait ended for no good reason");
            if (r.granted()) {
                (void)m.give(mask, r.run, device::from_leader(mask, i) % 2 != 0);
            }
        }
    });
    if (w.s.run()) {
        m.settle_and_check();
        m.s.check(m.taken_aside >= m.heap.sum(device::counter::late_responses), "a late response was counted twice");
        m.s.check(m.tickets == m.requests_read && m.tickets == m.slots_freed, "a request was lost");
    }
}

const registrar abandonment{
    {"abandonment", "Waiters give up, responses come late.", {{{3, 2}, {3}}, 2}, run_abandonment}};

}  // namespace
}  // namespace orchard::explore
