// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A lane stops for good while its group is poller, at any change that only pollers make. All other groups still get
/// their responses, each exactly once.
///
/// At the end, only memory that the stopped group held may be missing: its own slot with the grant in it, or the runs
/// that its lanes owned. If a lane stopped between taking an unattended response and putting it into the segment cache,
/// that grant is missing too.

#include <utility>

#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

/// Stops the lane that makes the n-th change.
struct reaper {
    simt::explore::simulation& s;
    std::uint32_t left;
    bool came = false;

    void change() {
        if (!came && left-- == 0) {
            came = true;
            s.stop_for_good(s.self());
        }
    }
};

/// One group waits until it takes over the lease of a stopped poller; without it no group would notice the stop.
void succeed(mailbox_world& m) {
    m.heap.view.mailbox.timeout_ns = 1'000'000'000;
    m.s.add_kernel({{1}}, [&](simt::thread_position) {
        for (std::uint32_t i = 0; i < 2 * m.box.shape.pollers; ++i) {
            m.s.check(m.ping(simt::converge()).answered(), "no group gets a response since a poller has stopped");
        }
    });
    (void)m.s.run();
}

/// Checks the segments that are granted in addition to those that live groups have returned; all other segments must be
/// free.
void check_what_is_missing(mailbox_world& m, bool stopped) {
    const std::uint32_t slots = m.heap.slots_claimed();
    std::uint32_t granted = 0;
    // Segments that lanes of the stopped group put into the segment cache at the last moment may be invisible to other
    // groups, because no order exists between the two.
    const std::uint64_t unseen = stopped ? m.heap.view.cache[0].load<simt::order::relaxed>() : 0;
    for (std::uint32_t i = 0; i < m.heap.setup.segments; ++i) {
        granted += m.heap.service.is_granted(segment_index{i}) && (unseen >> i & 1) == 0 ? 1 : 0;
    }
    m.s.check(slots <= (stopped ? 1 : 0), "a slot is lost");
    // Its own grant is one segment, and the grant that one lane took for the segment cache is at most two.
    m.s.check(granted <= (stopped ? 3 : 0), "segments are lost");
    m.s.check(m.heap.service.validate().ok(), "the service's structures disagree");
    m.s.check(m.tickets == m.requests_read && m.tickets - m.slots_freed == slots, "a request was lost");
}

void run_poller_death(world& w) {
    const mailbox::shape shape = w.s.pick(2) == 0 ? mailbox::shape{4, 8, 1} : mailbox::shape{8, 8, 2};
    mailbox_world m(w, {.segments = 64, .shape = shape, .timeout_ns = 1'000'000'000, .lost_after_ns = 5'000});
    m.heap.memory.commit_ns = 3'000;
    m.watch_protocol();
    reaper r{w.s, w.s.pick(60)};
    m.on_poller = [&] { r.change(); };
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            const simt::lane_mask mask = simt::converge();
            // Some groups take all slots for responses that no group waits for; then only a group that wants a slot can
            // notice the missing poller.
            for (std::uint32_t n = device::from_leader(mask, 1 + m.s.pick(4)); n != 0; --n) {
                (void)m.ask_unattended(mask, 2);
            }
            const reply got = m.ask(mask, 1);
            m.s.check(got.granted(), "a request was lost with a poller");
            (void)m.give(mask, got.run, false);
        }
    });
    if (!w.s.run()) {
        return;
    }
    const bool stopped = std::exchange(r.came, true);
    succeed(m);
    if (w.s.result().ok() && m.heap.settle({})) {
        check_what_is_missing(m, stopped);
    }
}

const registrar poller_death{{"poller_death", "A poller stops for good.", {{{3, 2}, {3}}, 1}, run_poller_death}};

}  // namespace
}  // namespace orchard::explore
