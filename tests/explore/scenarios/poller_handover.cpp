// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Pollers of one ring or two change often, and are taken for stopped although they were only slow: every response is
/// delivered once, and no cursor goes back.
///
/// In a second scenario, slots have tags of three bits, so that a tag comes back after eight uses of its slot. With
/// two, one recovery of a ring of four responses could already see a tag again. Pollers go on when their slots have the
/// same tags again: no response is delivered to a later request.

#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

/// Runs groups that ask for segments and return them, beside requests for which no group waits.
void run_pollers(world& w, std::uint32_t tag_bits, std::uint64_t lost_after_ns) {
    const mailbox::shape shape = w.s.pick(2) == 0 ? mailbox::shape{4, tag_bits, 1} : mailbox::shape{8, tag_bits, 2};
    mailbox_world m(w, {.segments = 64, .shape = shape, .timeout_ns = 1'000'000'000, .lost_after_ns = lost_after_ns});
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

void run_poller_handover(world& w) {
    // Tags of eight bits: a poller that was taken for stopped may continue after its slot was used several times.
    run_pollers(w, 8, 2'000);
}

const registrar poller_handover{
    {"poller_handover", "Pollers follow each other, and are taken for lost.", {{{3, 2}, {3}}, 2}, run_poller_handover}};

void run_poller_stall(world& w) {
    // A ring is taken over long after a response that a poller has read is visible to all others: within 30 accesses,
    // of which each takes 20 ns.
    w.s.set_patience(30);
    run_pollers(w, 3, 8'000);
}

const registrar poller_stall{
    {"poller_stall", "Pollers stall until the tags of their slots come back.", {{{3, 2}, {3}}, 6}, run_poller_stall}};

}  // namespace
}  // namespace orchard::explore
