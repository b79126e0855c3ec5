// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Pollers of one ring or two change often, and are taken for stopped although they were only slow: every response is
/// delivered once, and no cursor goes back.

#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

void run_poller_handover(world& w) {
    // Tags of eight bits: a poller that was taken for stopped may continue after its slot was used several times.
    const mailbox::shape shape = w.s.pick(2) == 0 ? mailbox::shape{4, 8, 1} : mailbox::shape{8, 8, 2};
    mailbox_world m(w, {.segments = 64, .shape = shape, .timeout_ns = 1'000'000'000, .lost_after_ns = 2'000});
    m.heap.memory.commit_ns = 3'000;
    m.watch_protocol();
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const simt::lane_mask mask = simt::converge();
            const int round = device::from_leader(mask, i);
            if (round % 2 == 0) {
                (void)m.ask_unattended(mask, 2);
            }
            const reply r = m.ask(mask, 1);
            m.s.check(r.granted(), "a request was lost between pollers");
            (void)m.give(mask, r.run, round % 2 != 0);
        }
    });
    if (w.s.run()) {
        m.settle_and_check();
        m.s.check(m.tickets == m.requests_read && m.tickets == m.slots_freed, "a request was lost");
    }
}

const registrar poller_handover{
    {"poller_handover", "Pollers follow each other, and are taken for lost.", {{{3, 2}, {3}}, 2}, run_poller_handover}};

}  // namespace
}  // namespace orchard::explore
