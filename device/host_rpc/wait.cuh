// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Waiting for a response: a group polls its slot in device memory, checks at intervals whether the ring needs a
/// poller, and gives up at the deadline.
///
///            +-----------------------------------------------+
///            v                                               | time for a check
///     look: serve (a turn, if the lease is free) -> poll: own slot -> pause -> poll ...
///            |                                        |
///            | own response read from the ring        | slot answered, or deadline passed
///            v                                        v
///     take_response <----------------------- over; at the deadline `give_up` first
///
/// Nearly all groups stay in `poll`, which reads device memory; only halfway to the deadline it reads a word of host
/// memory. Reads of the response ring in host memory delay commits, and are left to one group for each ring.

#include "device/host_rpc/poller.cuh"
#include "device/host_rpc/rejection.cuh"

namespace orchard::device {

namespace waiting {

/// The next action of a waiting group: pause, check the poller's lease, or end the wait.
enum class step : std::uint32_t { pause, look, over };

/// Notes the poller word that a check of the lease has seen, and sets the time of the next check. All lanes of the
/// group call it, after `serve`. Cost: a read of the clock, two loads, two shuffles.
///
/// The more requests of a ring are in flight, the less often each group checks, so that the poller word is no
/// bottleneck: all groups together make about one check every 40 ns. With 100 requests in flight, for instance, a group
/// checks again after 1500 + 40 * 100 = 5,500 ns to twice that, and pauses 150 ns between two polls of its slot.
inline ORCHARD_NOINLINE void note_check(rpc_context& e) {
    const mailbox_client& box = *e.box;
    const std::uint64_t now = from_leader(e.mask, simt::clock_ns());
    const bool first = !e.wait.looked;
    e.wait.looked = true;
    e.wait.just_checked = true;
    // A delivery in this ring is progress, also if it is for another group: the deadline and its half begin anew.
    if (first || poller_word::cursor(e.turn.poller) != poller_word::cursor(e.wait.poller)) {
        e.wait.progress_at = now;
        e.wait.half_time = false;
    }
    // Any change shows that the ring's poller is alive, also one of the epoch alone: a poller without responses gives
    // its lease up after `longest_turn` rounds.
    if (first || e.turn.poller != e.wait.poller) {
        e.wait.poller = e.turn.poller;
        e.wait.changed_at = now;
    }
    const std::uint64_t posted = box.device->posted[e.turn.ring].word.load<simt::order::relaxed>();
    const std::uint64_t done = poller_word::cursor(box.device->poller[e.turn.ring].word.load<simt::order::relaxed>());
    const std::uint64_t all = from_leader(e.mask, poller_word::flying(posted, done));
    const std::uint32_t most = box.shape.response_slots();
    const std::uint32_t flying = all < most ? static_cast<std::uint32_t>(all) : most;
    const std::uint32_t interval = 1500 + 40 * flying;  // at most 1.3 ms
    // Spreads the groups' checks over up to one more interval, by a hash of the slot.
    const std::uint64_t spread = std::uint64_t{e.post.made.slot * 0x9e3779b1u >> 16} * interval;
    e.wait.next_check = now + interval + spread / 65536;
    e.wait.pause_ns = 100 + flying / 2 < 1000 ? 100 + flying / 2 : 1000;
}

/// Polls the slot once. Returns `over` if the response is there or the deadline has passed; `look` if the poller's
/// lease is to be checked, with `e.turn.lost` set if it may be taken over; otherwise pauses and returns `pause`. All
/// lanes of the group call it, converged. Cost: one load of device memory, a read of the clock, two shuffles; halfway
/// to the deadline a load of host memory.
inline ORCHARD_NOINLINE step poll(rpc_context& e) {
    const mailbox_client& box = *e.box;
    std::uint64_t word = 0;
    std::uint64_t now = 0;
    if (is_leader(e.mask)) {
        // Acquire: pairs with the compare-and-swap in `hand_over_some`, behind the poller's fence. This lane then sees
        // what the service released with the response. The other lanes of the group need a barrier
        // (`mailbox_client::wait`).
        word = box.device->slots()[e.post.made.slot].load<simt::order::acquire>();
        now = simt::clock_ns();
    }
    word = from_leader(e.mask, word);
    if ((word & slot_word::answered) != 0) {
        e.wait.delivered = word;
        return step::over;
    }
    now = from_leader(e.mask, now);
    // Skip every second lease check: a check can take longer than the check interval, and the deadline test below must
    // still run.
    const bool may_check = !e.wait.just_checked || mutation::is(mutation::fault::look_again);
    e.wait.just_checked = false;
    if (may_check && now >= e.wait.next_check) {
        // The word itself is passed on. The take-over succeeds only if it is still the same (`take_lease`), so that of
        // several groups that find the poller stopped, one becomes its successor.
        e.turn.lost = now - e.wait.changed_at > box.lost_after_ns ? e.wait.poller : 0;
        return step::look;
    }
    const std::uint64_t waited = now - e.wait.progress_at;
    // The heartbeat is compared at two times, since one value does not say whether the service runs. Only the leader
    // reads it, as it is a word of host memory.
    if (!e.wait.half_time && waited > box.timeout_ns / 2) {
        e.wait.half_time = true;
        e.wait.heartbeat_at = now;
        e.wait.heartbeat_before = is_leader(e.mask) ? box.host.heartbeat->load<simt::order::relaxed>() : 0;
    }
    // A quarter of the deadline must lie between the two reads of the heartbeat, even if this group itself was delayed.
    // Otherwise a service that runs could seem silent.
    if (waited > box.timeout_ns && now - e.wait.heartbeat_at > box.timeout_ns / 4) {
        return step::over;
    }
    simt::pause(e.wait.pause_ns);
    return step::pause;
}

/// Ends a wait at the deadline. Leaves the slot to the poller that delivers there later, unless the response has just
/// arrived. All lanes of the group call it. Cost: a load of host memory, an atomic, two shuffles.
///
///     slot:  waiting(t) --this function--> forsaken(t, what was asked) --poller--> idle(t+1), the grant is completed
///            delivered(t)                  the compare-and-swap fails, and returns the response: the wait succeeds
///
/// The group must not free the slot itself. The request is under way, and its grant would be lost: the poller would
/// find no slot that this response belongs to, and would not know what the request asked for.
///
/// Acquire on failure: the word found is the response; it pairs as in `poll`. On success nothing is read.
inline ORCHARD_NOINLINE void give_up(rpc_context& e) {
    const mailbox_client& box = *e.box;
    const ticket r = e.post.made;
    std::uint64_t found = 0;
    std::uint32_t alive = 0;
    if (is_leader(e.mask)) {
        // If the heartbeat has changed since half of the deadline, the service runs, and it is the commit that does not
        // come.
        alive = box.host.heartbeat->load<simt::order::relaxed>() != e.wait.heartbeat_before ? 1 : 0;
        found = slot_word::waiting(r.tag, r.takeover);
        auto& word = box.device->slots()[r.slot];
        if (mutation::is(mutation::fault::abandonment)) {
            found = 0;
            box.finish(r);
        }
        // Once again if a take-over has changed the word meanwhile.
        while (found != 0 && (found & slot_word::answered) == 0) {
            const std::uint64_t left =
                slot_word::left_unattended(r.tag, r.count, r.leaves, slot_word::takeover_field::get(found));
            if (word.compare_exchange<simt::order::acquire>(found, left)) {
                found = 0;
            }
        }
        // Later requests then fail at once, until the heartbeat has another value than this one.
        if (alive == 0 && found == 0) {
            rejections::note_rejection(*e.box, mailbox::device_part::silent_at(e.wait.heartbeat_before));
        }
    }
    e.wait.delivered = from_leader(e.mask, found);
    alive = from_leader(e.mask, alive);
    if (e.wait.delivered == 0) {
        e.wait.failure = alive != 0 ? failure_reason::commit_blocked : failure_reason::service_not_responding;
    }
}

/// Frees the slot, and returns the response, with the granted run and tail complete: the service does not repeat what
/// was asked for, so that `granted_by` adds it from the ticket. After `give_up` without a response, returns the
/// failure, and leaves the slot alone. All lanes of the group call it.
///
/// A group that was poller may have its response directly from the ring (`e.turn.mine`). Its slot then still waits, and
/// is freed without having been answered, with the `takeover` with which it was claimed. If another poller has changed
/// that meanwhile, it has also taken the ring over, and what it wrote is needed no longer (`poller::begin_recovery`).
inline ORCHARD_FN outcome take_response(rpc_context& e) {
    if (e.wait.failure != failure_reason::none) {
        return {response{}, e.wait.failure, leaf_index{0}};
    }
    if (e.turn.mine == 0) {
        e.post.made.takeover = slot_word::takeover_field::get(e.wait.delivered);
    }
    if (is_leader(e.mask)) {
        e.box->finish(e.post.made);
    }
    outcome o{e.turn.mine != 0 ? response::unpack(e.turn.mine) : slot_word::unpack(e.wait.delivered),
              failure_reason::none, leaf_index{0}};
    const mailbox::grant got = mailbox::granted_by(o.result, e.post.made.count, e.post.made.leaves);
    o.result.run = got;
    o.leaf = got.leaf;
    return o;
}

}  // namespace waiting

template <class Completion>
ORCHARD_FN outcome mailbox_client::wait(rpc_context_with<Completion>& e) {
    // The turn's parameters hold for all turns of this wait: the ring of the slot, and the response to look for.
    e.wait.begin();
    e.turn.begin(poller::longest_turn);
    e.turn.ring = e.box->shape.response_ring(e.post.made.slot);
    e.turn.own_slot = e.post.made.slot;
    e.turn.own_tag = e.post.made.tag;
    e.turn.eager = true;
    // It begins with a look. A ring without a poller would otherwise stand still for an interval; under light traffic,
    // a group thus becomes the poller of its own response.
    for (waiting::step next = waiting::step::look; next != waiting::step::over;) {
        if (next == waiting::step::look) {
            poller::serve(e);
            if (e.turn.mine != 0) {
                break;
            }
            waiting::note_check(e);
            e.turn.eager = false;
        }
        next = waiting::poll(e);
    }
    if (e.turn.mine == 0 && e.wait.delivered == 0) {
        waiting::give_up(e);
    }
    return waiting::take_response(e);
}

template <class Completion>
ORCHARD_FN outcome mailbox_client::wait(simt::lane_mask mask, ticket r, Completion completion) const {
    rpc_context_with<Completion> e{this, mask, completion};
    e.post.made = r;
    return wait(e);
}

}  // namespace orchard::device
