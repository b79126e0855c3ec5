// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Posting: a slot first, which is the credit, then a ticket, then the word.

#include "device/host_rpc/wait.cuh"

namespace orchard::device {

namespace posts {

/// Times that `post` tries to find a free slot before it waits for one.
inline constexpr std::uint32_t quick_attempts = 9;

/// Leader only: tries to claim one slot, the warp's own first. Relaxed: a slot carries nothing but its own word.
inline ORCHARD_FN bool claim(rpc_context& e) {
    const auto warp = static_cast<std::uint32_t>(simt::position().global_warp());
    ticket& r = e.post.made;
    r.slot = (warp + e.post.attempt * 0x9e3779b1u) & (e.box->shape.slots - 1);
    auto& word = e.box->device->slots()[r.slot];
    if (!e.post.unattended) {
        const std::uint64_t old = word.fetch_or<simt::order::relaxed>(slot_word::pending);
        r.tag = slot_word::tag_field::get(old);
        return (old & slot_word::pending) == 0 || mutation::is(mutation::fault::credit);
    }
    // Both bits at once, and only on an idle slot: a slot that waits must not become unattended by mistake.
    std::uint64_t old = word.load<simt::order::relaxed>();
    r.tag = slot_word::tag_field::get(old);
    return (old & slot_word::pending) == 0 &&
           word.compare_exchange<simt::order::relaxed>(old, slot_word::forsaken(r.tag, r.count, r.leaves));
}

/// Leader only. The ticket is written at once: the service waits for it.
inline ORCHARD_NOINLINE void write_request(rpc_context& e) {
    const mailbox_client& box = *e.box;
    box.device->posted[box.shape.response_ring(e.post.made.slot)].word.fetch_add<simt::order::relaxed>(1);
    const std::uint64_t ticket = box.device->ticket.word.fetch_add<simt::order::relaxed>(1);
    auto& word = box.host.posts[box.shape.position(ticket)];
    const std::uint64_t packed = e.post.packed | mailbox::request::slot_field::put(e.post.made.slot) |
                                 mailbox::request::tag_field::put(e.post.made.tag) |
                                 mailbox::request::lap_field::put(box.shape.lap_tag(ticket));
    if (e.post.request.kind == mailbox::request_kind::give_back) {
        // What the last owner wrote is before what the next owner writes: pairs with the service's acquire.
        word.store<simt::order::release>(packed);
    } else {
        word.store<simt::order::relaxed>(packed);
    }
}

/// How an attempt to post ended. `refused`: it is known why nothing can be got; `ticket::failure` says it.
enum class attempt : std::uint32_t { posted, refused, taken };

/// Leader only: an attempt at one slot. `posted`: the slot is claimed, and the post is to be written at once.
inline ORCHARD_NOINLINE attempt try_slot(rpc_context& e) {
    const bool claimed = claim(e);  // a slot claimed in vain is let go
    ++e.post.attempt;
    // Returns are taken to the last.
    if (e.post.request.kind == mailbox::request_kind::grant) {
        e.post.made.failure = e.box->known_rejection(e.post.request.least_leaves());
        if (e.post.made.failure != failure_reason::none) {
            if (claimed) {
                e.box->finish(e.post.made);
            }
            return attempt::refused;
        }
    }
    return claimed ? attempt::posted : attempt::taken;
}

/// Leader only: tries up to `attempts` slots, and posts.
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

/// Tries up to `attempts` slots. True: it is over, with a post or with a reason why not; all lanes.
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

/// Whether nothing has been delivered for as long as the deadline allows. All lanes.
inline ORCHARD_NOINLINE bool is_stuck(rpc_context& e) {
    const std::uint64_t now = from_leader(e.mask, simt::clock_ns());
    const std::uint64_t done = from_leader(e.mask, e.box->delivered());
    if (done != e.post.progress || e.post.progress_at == 0) {
        e.post.progress = done;
        e.post.progress_at = now;
    }
    return now - e.post.progress_at > e.box->timeout_ns;
}

}  // namespace posts

template <class Completion>
ORCHARD_FN void mailbox_client::post(rpc_context_with<Completion>& e) {
    if (posts::try_post(e, posts::quick_attempts)) {
        return;
    }
    // All slots are in use. Some may only wait for a poller: is one, between further attempts.
    e.seen = rounds_seen{};
    ORCHARD_NO_UNROLL
    while (!e.post.unattended && !posts::is_stuck(e)) {
        go_round_again(e);
        simt::pause(500);
        if (posts::try_post(e, 1)) {
            return;
        }
    }
    e.post.made.failure = failure_reason::service_not_answering;
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
