// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Posting a request: a group claims a slot (its credit), then takes a ticket (its position in the request ring), then
/// writes the request's word there.
///
///     slot:     idle(t) --claim--> pending(t)                 at most as many requests as slots: no ring overruns
///     counters: posted[ring] + 1, ticket + 1                  the ticket is the request's position in the request ring
///     ring:     word[ticket mod N] = {payload, t, slot, kind, lap tag of the ticket}
///
/// The order matters. With a ticket but no slot, a group could overwrite a request that the service has not read yet.
/// With a ticket but a late word, the group would stop the service, which reads the ring in order, for all others.

#include "device/host_rpc/wait.cuh"

namespace orchard::device {

namespace sending {

/// Attempts to find a free slot before `post` acts as poller between further attempts. Requests without a waiter make
/// no more than these.
inline constexpr std::uint32_t quick_attempts = 9;

/// Returns true if it has claimed a slot for this group; tries one slot. Sets `e.post.made.slot`, `.tag` and
/// `.takeover`. The leader calls it alone. Cost: one atomic; for a request without a waiter a load, and an atomic if
/// the slot is idle.
///
/// Attempt a tries slot (warp + a * 0x9e3779b1) mod N. Warps thus begin at different slots. As the factor is odd and N
/// a power of two, N attempts in a row visit every slot once. Warp 7 of a mailbox of 16,384 slots tries 7, 14776,
/// 13161, ...
///
/// Relaxed: a slot carries nothing but its own word. The atomic alone decides which of several groups has it.
inline ORCHARD_FN bool claim(rpc_context& e) {
    const auto warp = static_cast<std::uint32_t>(simt::position().global_warp());
    ticket& r = e.post.made;
    r.slot = (warp + e.post.attempt * 0x9e3779b1u) & (e.box->shape.slots - 1);
    auto& word = e.box->device->slots()[r.slot];
    if (!e.post.unattended) {
        // On a slot in use, this changes nothing, because all of its states but idle have `pending` set.
        const std::uint64_t old = word.fetch_or<simt::order::relaxed>(slot_word::pending);
        r.tag = slot_word::tag_field::get(old);
        r.takeover = slot_word::takeover_field::get(old);
        return (old & slot_word::pending) == 0 || mutation::is(mutation::fault::credit);
    }
    // Sets both bits at once, and only if the slot is idle: a slot with a waiter must not become unattended.
    std::uint64_t old = word.load<simt::order::relaxed>();
    r.tag = slot_word::tag_field::get(old);
    r.takeover = slot_word::takeover_field::get(old);
    return (old & slot_word::pending) == 0 &&
           word.compare_exchange<simt::order::relaxed>(
               old, slot_word::left_unattended(r.tag, r.count, r.leaves, r.takeover));
}

/// Takes a ticket and writes the request. Nothing may delay the write after the ticket is taken, because the service
/// reads the ring in order. The leader calls it alone, once for each claimed slot. Cost: an atomic whose result is not
/// used, an atomic, and a store to host memory.
///
/// With N = 16,384 slots, ticket 40,000 goes to word 40,000 mod N = 7,232 with the lap tag 40,000 / N + 1 = 3. The word
/// that it overwrites has the lap tag 2, so that the service sees from the word alone that a request is new.
inline ORCHARD_NOINLINE void write_request(rpc_context& e) {
    const mailbox_client& box = *e.box;
    // Counted first: while a response is owed, the ring's poller should find `posted` ahead of its cursor, and stay. It
    // is a hint, as relaxed accesses may become visible in another order.
    box.device->posted[box.shape.response_ring(e.post.made.slot)].word.fetch_add<simt::order::relaxed>(1);
    const std::uint64_t ticket = box.device->ticket.word.fetch_add<simt::order::relaxed>(1);
    auto& word = box.host.requests[box.shape.position(ticket)];
    const std::uint64_t packed = e.post.packed | mailbox::request::slot_field::put(e.post.made.slot) |
                                 mailbox::request::tag_field::put(e.post.made.tag) |
                                 mailbox::request::lap_field::put(box.shape.lap_tag(ticket));
    if (e.post.request.kind == mailbox::request_kind::give_back) {
        // Orders the last owner's writes before those of the next owner: pairs with the service's acquire of this word.
        word.store<simt::order::release>(packed);
    } else {
        // A request that hands no memory over has nothing to release.
        word.store<simt::order::relaxed>(packed);
    }
}

/// The result of an attempt to post. `rejected`: the request is known to fail; `ticket::failure` says why. `taken`: the
/// slot was in use.
enum class attempt : std::uint32_t { posted, rejected, taken };

/// Returns the result of an attempt at one slot. On `posted`, the slot is claimed, and the caller must write the
/// request at once. On `rejected`, `e.post.made.failure` has the reason. The leader calls it alone. Cost: `claim`, and
/// for a request for memory `known_rejection`.
///
/// The note of a known reason is read at each attempt, also if the slot was in use. If the service is silent, all slots
/// may stay in use, and the request should fail at once instead of waiting for one.
inline ORCHARD_NOINLINE attempt try_slot(rpc_context& e) {
    const bool claimed = claim(e);  // freed below if the request is rejected
    ++e.post.attempt;
    // Returns of segments are never rejected, also not while the heap is being closed.
    if (e.post.request.kind == mailbox::request_kind::grant || e.post.request.kind == mailbox::request_kind::extend) {
        e.post.made.failure = e.box->known_rejection(e.post.request.least_leaves());
        if (e.post.made.failure != failure_reason::none) {
            if (claimed) {
                // With the same tag, as no request was sent in this use. Otherwise tags could come back without
                // responses, and match an old response that the cursor has not passed yet.
                e.box->device->slots()[e.post.made.slot].store<simt::order::relaxed>(
                    slot_word::idle(e.post.made.tag, e.post.made.takeover));
            }
            return attempt::rejected;
        }
    }
    return claimed ? attempt::posted : attempt::taken;
}

/// Tries up to `attempts` slots, and posts if one is free. Returns the result of the last attempt. The leader calls it
/// alone.
inline ORCHARD_FN attempt try_slots(rpc_context& e, std::uint32_t attempts) {
    const std::uint32_t end = e.post.attempt + attempts;
    attempt result = attempt::taken;
    ORCHARD_NO_UNROLL
    while (result == attempt::taken && e.post.attempt != end) {
        result = try_slot(e);
    }
    if (result == attempt::posted) {
        write_request(e);
    }
    return result;
}

/// Returns true if the request was posted or rejected, false if the slots tried, up to `attempts`, were all in use. It
/// never waits. All lanes of the group call it, converged; all get the same ticket in `e.post.made`. Cost: that of the
/// leader's attempts, and four shuffles.
inline ORCHARD_NOINLINE bool try_post(rpc_context& e, std::uint32_t attempts) {
    e.post.made.count = e.post.request.run.count;
    e.post.made.leaves = to_underlying(e.post.request.leaves);
    e.post.made.failure = failure_reason::none;
    auto own = static_cast<std::uint32_t>(attempt::taken);
    if (is_leader(e.mask)) {
        own = static_cast<std::uint32_t>(try_slots(e, attempts));
    }
    const auto result = static_cast<attempt>(from_leader(e.mask, own));
    e.post.made.slot = from_leader(e.mask, e.post.made.slot);
    e.post.made.tag = from_leader(e.mask, e.post.made.tag);
    e.post.made.failure =
        static_cast<failure_reason>(from_leader(e.mask, static_cast<std::uint32_t>(e.post.made.failure)));
    return result != attempt::taken;
}

/// Returns whether no response has been delivered for the time of the deadline, in any ring of the mailbox: slots
/// become free only after deliveries. The first call after `posting::begin` starts the time. All lanes of the group
/// call it. Cost: a read of the clock, a load for each ring, two shuffles.
inline ORCHARD_NOINLINE bool is_stuck(rpc_context& e) {
    const std::uint64_t now = from_leader(e.mask, simt::clock_ns());
    const std::uint64_t done = from_leader(e.mask, e.box->delivered());
    if (done != e.post.progress || e.post.progress_at == 0) {
        e.post.progress = done;
        e.post.progress_at = now;
    }
    return now - e.post.progress_at > e.box->timeout_ns;
}

}  // namespace sending

template <class Completion>
ORCHARD_FN void mailbox_client::post(rpc_context_with<Completion>& e) {
    if (sending::try_post(e, sending::quick_attempts)) {
        return;
    }
    // All slots are in use. Some may have responses that no poller delivers: if all groups of a ring search slots, none
    // waits there. So this group acts as poller between further attempts.
    e.seen = rounds_seen{};
    ORCHARD_NO_UNROLL
    while (!e.post.unattended && !sending::is_stuck(e)) {
        go_round_again(e);
        simt::pause(500);
        if (sending::try_post(e, 1)) {
            return;
        }
    }
    // Nothing was delivered until the deadline, or the request has no waiter and can be tried later.
    e.post.made.failure = failure_reason::service_not_responding;
}

template <class Completion>
ORCHARD_FN ticket mailbox_client::post(simt::lane_mask mask, mailbox::request request, bool unattended,
                                       Completion completion) const {
    rpc_context_with<Completion> e{this, mask, completion};
    e.post.begin(request, unattended);
    post(e);
    return e.post.made;
}

}  // namespace orchard::device
