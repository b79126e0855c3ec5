// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// More groups than slots: a group without a slot waits for one, and every group is served.

#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

void run_credits(world& w) {
    mailbox_world m(w,
                    {.segments = 64, .shape = {4, 8, 1}, .timeout_ns = 1'000'000'000, .lost_after_ns = 1'000'000'000});
    m.heap.memory.commit_ns = 3'000;
    m.watch_protocol();
    m.only_pollers_read = true;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position at) {
        for (int i = 0; i < w.size.operations; ++i) {
            // Single lanes make the most groups.
            const simt::lane_mask mask = simt::lane_mask{1} << simt::lane_id();
            if (at.thread % 2 == 0) {
                (void)m.ask_unattended(mask, 1);  // holds a slot until a poller delivers
            }
            const reply r = m.ask(mask, 1);
            m.s.check(r.granted(), "a group that waits for a slot is not served");
            (void)m.give(mask, r.run, false);
        }
    });
    if (w.s.run()) {
        m.settle_and_check();
        m.s.check(m.tickets == m.requests_read && m.tickets == m.slots_freed, "a request was lost");
    }
}

const registrar credits{{"credits", "More groups than slots.", {{{3, 2}, {3}}, 1}, run_credits}};

}  // namespace
}  // namespace orchard::explore
