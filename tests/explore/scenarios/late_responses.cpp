// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Requests for which no group waits, for up to a number of segments, together with requests that groups wait for: the
/// memory of the former arrives in the segment cache, from which groups also take runs.

#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

void run_late_responses(world& w) {
    mailbox_world m(
        w,
        {.segments = 16, .extent = 3, .shape = {8, 8, 2}, .timeout_ns = 1'000'000'000, .lost_after_ns = 1'000'000'000});
    m.heap.memory.commit_ns = 5'000;
    m.watch_protocol();
    m.only_pollers_read = true;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const simt::lane_mask mask = simt::converge();
            (void)m.ask_unattended(mask, device::from_leader(mask, 1 + m.s.pick(5)));
            segment_run run;
            if (m.take_aside(mask, 1, &run)) {
                (void)m.give(mask, run, false);
            }
            // The segment cache may hold all that there is.
            const reply r = m.ask(mask, 1);
            m.s.check(r.answered(), "no response came");
            if (r.granted()) {
                (void)m.give(mask, r.run, false);
            }
            m.box.poller_round(mask, device::cache_completion{m.heap.view});
        }
    });
    if (w.s.run()) {
        m.settle_and_check();
        m.s.check(m.tickets == m.requests_read && m.tickets == m.slots_freed, "a request was lost");
    }
}

const registrar late_responses{
    {"late_responses", "Refills for which no group waits, beside requests.", {{{3, 2}, {3}}, 1}, run_late_responses}};

}  // namespace
}  // namespace orchard::explore
