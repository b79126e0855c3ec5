// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The service stops for good at some time: every wait ends at its deadline with the right reason, and memory that was
/// handed over had no other owner. Then the heap is closed.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tests/explore/mailbox_world.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t timeout_ns = 20'000;

void use(mailbox_world& m, simt::lane_mask mask) {
    const reply r = m.ask(mask, 1);
    m.s.check(
        r.answered() || r.why == failure_reason::service_not_responding || r.why == failure_reason::commit_blocked,
        "a wait ended for no good reason");
    if (r.granted()) {
        (void)m.give(mask, r.run, device::from_leader(mask, m.s.pick(2)) != 0);
    }
}

/// Expects this reason for every request that is made long after the service has stopped.
void expect_all(mailbox_world& m, const world& w, failure_reason why) {
    m.s.add_kernel(w.size.blocks, [&m, why](simt::thread_position) {
        const reply r = m.ask(simt::converge(), 1);
        m.s.check(r.why == why, "a request to a dead service has another reason");
    });
    (void)m.s.run();
}

/// Segments in the segment cache are granted, so they have no other owner.
void check_cache(mailbox_world& m) {
    const std::uint64_t held = m.heap.view.cache[0].load<simt::order::relaxed>();
    for (std::uint32_t i = 0; i < m.heap.setup.segments; ++i) {
        m.s.check((held >> i & 1) == 0 || m.heap.service.is_granted(segment_index{i}),
                  "a segment is free for the host and in the segment cache");
    }
    m.s.check(m.heap.service.validate().ok(), "the service's structures disagree");
    m.s.check(m.s.owned() == 0, "a run is still owned");
}

void run_dead_service(world& w) {
    mailbox_world m(w, {.segments = 32, .shape = {8, 8, 1}, .timeout_ns = timeout_ns, .lost_after_ns = 1'000'000'000});
    m.heap.memory.commit_ns = 3'000;
    m.watch_protocol();
    std::uint32_t beats_left = w.s.pick(40);
    w.s.watch(m.box.host.heartbeat, [&](const auto& a) {
        if (!a.is_load && beats_left-- == 0) {
            w.s.stop_for_good(m.heap.service_actor);
        }
    });
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        for (int i = 0; i < w.size.operations; ++i) {
            use(m, simt::converge());
        }
    });
    if (!w.s.run()) {
        return;
    }
    w.s.stop_for_good(m.heap.service_actor);
    // Long after: no thread sees an old heartbeat any more.
    m.box.host.heartbeat->store<simt::order::relaxed>(1'000'000);
    expect_all(m, w, failure_reason::service_not_responding);
    m.box.device->rejection.flags.store<simt::order::relaxed>(mailbox::device_part::closing);
    expect_all(m, w, failure_reason::closing);
    check_cache(m);
}

/// Groups ask a service that never runs. The promise of 1.5 deadlines, to which the simulation adds what it delays a
/// group by; a group that finds the first one's note ends earlier.
void run_service_that_never_runs(world& w) {
    constexpr std::uint64_t deadline_ns = 1'000'000;
    constexpr std::uint64_t look_ns = 100'000;  // a look at the clock, among the steps of all others
    mailbox_world m(w, {.segments = 32, .timeout_ns = deadline_ns, .lost_after_ns = 1'000'000'000});
    w.s.stop_for_good(m.heap.service_actor);
    std::uint64_t longest = 0;
    w.s.add_kernel(w.size.blocks, [&](simt::thread_position) {
        const std::uint64_t began = simt::clock_ns();
        const reply r = m.ask(simt::converge(), 1);
        const std::uint64_t waited = simt::clock_ns() - began;
        longest = std::max(longest, waited);
        m.s.check(r.why == failure_reason::service_not_responding, "a request to a dead service has another reason");
        m.s.check(waited <= deadline_ns * 3 / 2 + look_ns + m.s.stood_still_ns(),
                  absl::StrFormat("a request to a dead service waited for %d ns", waited));
    });
    if (w.s.run()) {
        m.s.check(longest >= deadline_ns, "all requests have ended before their deadline");
    }
}

const registrar dead_service{{"dead_service", "The service stops for good.", {{{3, 2}, {3}}, 1}, run_dead_service}};
const registrar service_that_never_runs{{"service_that_never_runs",
                                         "A service never runs: no group waits for longer than 1.5 deadlines.",
                                         {{{3, 2}, {3}}, 1},
                                         run_service_that_never_runs}};
const registrar whole_warp{{"dead_service_whole_warp",
                            "The same, where a look for responses takes a warp longer than it is to the next look.",
                            {{{32, 1}, {1}}, 1},
                            run_dead_service}};

}  // namespace
}  // namespace orchard::explore
