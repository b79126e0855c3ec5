// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Grants, returns and pings through a mailbox of four slots, so often that tags and laps of two bits wrap.

#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

/// The work of a group in its `round`; the same in all of its lanes.
void use(mailbox_world& m, simt::lane_mask mask, int round) {
    const auto what = static_cast<std::uint32_t>(round) + simt::position().thread;
    const std::uint32_t choice = device::from_leader(mask, what);
    if (choice % 4 == 3) {
        m.s.check(m.ping(mask).answered(), "no response to a ping came");
        return;
    }
    const reply r = m.ask(mask, 1 + choice % 2);
    m.s.check(r.granted(), "no memory, although the heap has enough for all");
    const failure_reason why = m.give(mask, r.run, choice % 4 != 2);
    m.s.check(why == failure_reason::none, "the return of a run failed");
}

void run_mailbox(world& w) {
    // More segments than all groups can hold and leave in the segment cache. No delay is long enough for a poller to be
    // taken for stopped: this scenario is about ordinary turns.
    mailbox_world m(
        w, {.segments = 64, .shape = {4, 2, 1, 2}, .timeout_ns = 1'000'000'000, .lost_after_ns = 1'000'000'000});
    m.heap.memory.commit_ns = 3'000;
    // Lap tags of two bits distinguish a word from one that is three laps older, but not from one that is four laps
    // older. A poller's loads come after those of the previous poller, because they depend on its word. The simulated
    // memory does not know dependencies, so its patience limits how old a version it may show: three laps are 24
    // responses, and each takes ten accesses at least.
    w.s.set_patience(240);
    m.watch_protocol();
    m.only_pollers_read = true;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            use(m, simt::converge(), i);
        }
    });
    if (w.s.run()) {
        m.settle_and_check();
    }
}

const registrar mailbox_scenario{
    {"mailbox", "Four slots, tags of two bits: grants, returns and pings.", {{{3, 2}, {3}}, 2}, run_mailbox}};

}  // namespace
}  // namespace orchard::explore
