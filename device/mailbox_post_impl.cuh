// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Posting: a slot first, which is the credit, then a ticket, then the word.

#include "device/mailbox_client_impl.cuh"

namespace orchard::device {

/// Leader only: tries to claim one slot, the warp's own first. Relaxed: a slot carries nothing but its own word.
inline ORCHARD_FN bool mailbox_client::claim(receipt& r, std::uint32_t attempt, bool unattended) const {
    const auto warp = static_cast<std::uint32_t>(simt::position().global_warp());
    r.slot = (warp + attempt * 0x9e3779b1u) & (shape.slots - 1);
    auto& word = device->slots()[r.slot];
    if (!unattended) {
        const std::uint64_t old = word.fetch_or<simt::order::relaxed>(slot_word::pending);
        r.tag = slot_word::tag_field::get(old);
        return (old & slot_word::pending) == 0 || mutation::is(mutation::fault::credit);
    }
    // Both bits at once, and only on an idle slot: a slot that waits must not become unattended by mistake.
    std::uint64_t old = word.load<simt::order::relaxed>();
    r.tag = slot_word::tag_field::get(old);
    return (old & slot_word::pending) == 0 &&
           word.compare_exchange<simt::order::relaxed>(old, slot_word::forsaken(r.tag, r.count));
}

/// Leader only. The ticket is written at once: the service waits for it.
inline ORCHARD_FN void mailbox_client::write_post(receipt r, mailbox::post request) const {
    request.slot = r.slot;
    request.tag = r.tag;
    device->posted[shape.answer_ring(r.slot)].word.fetch_add<simt::order::relaxed>(1);
    const std::uint64_t ticket = device->ticket.word.fetch_add<simt::order::relaxed>(1);
    auto& word = host.posts[shape.position(ticket)];
    const std::uint64_t packed = request.pack(shape.lap_tag(ticket));
    if (request.kind == mailbox::post_kind::give_back) {
        // What the last owner wrote is before what the next owner writes: pairs with the service's acquire.
        word.store<simt::order::release>(packed);
    } else {
        word.store<simt::order::relaxed>(packed);
    }
}

/// One attempt, at one slot. True: it is over, with a post or with a reason why not; all lanes.
inline ORCHARD_FN bool mailbox_client::try_post(simt::lane_mask mask, mailbox::post request, std::uint32_t attempt,
                                                bool unattended, receipt& r) const {
    enum : std::uint32_t { posted, closing, taken };
    std::uint32_t state = taken;
    if (is_leader(mask)) {
        // Both are under way at once; a slot claimed in vain is let go.
        const std::uint64_t flags = device->flags.word.load<simt::order::relaxed>();
        const bool claimed = claim(r, attempt, unattended);
        // Returns are taken to the last.
        if ((flags & mailbox::device_part::closing) != 0 && request.kind == mailbox::post_kind::grant) {
            state = closing;
            if (claimed) {
                finish(r);
            }
        } else if (claimed) {
            write_post(r, request);
            state = posted;
        }
    }
    state = from_leader(mask, state);
    if (state == posted) {
        r.slot = from_leader(mask, r.slot);
        r.tag = from_leader(mask, r.tag);
    } else if (state == closing) {
        r.failure = failure_reason::closing;
    }
    return state != taken;
}

template <class Sink>
ORCHARD_FN receipt mailbox_client::post(simt::lane_mask mask, mailbox::post request, bool unattended,
                                        Sink&& sink) const {
    receipt r;
    r.count = request.run.count;
    for (std::uint32_t attempt = 0; attempt < quick_attempts; ++attempt) {
        if (try_post(mask, request, attempt, unattended, r)) {
            return r;
        }
    }
    if (unattended) {
        r.failure = failure_reason::service_not_answering;
        return r;
    }
    return post_when_free(mask, request, sink);
}

/// All slots are in use. Some may only wait for a courier: is one, between further attempts.
template <class Sink>
ORCHARD_NOINLINE receipt mailbox_client::post_when_free(simt::lane_mask mask, mailbox::post request, Sink sink) const {
    receipt r;
    r.count = request.run.count;
    rounds_seen seen;
    std::uint64_t progress = from_leader(mask, delivered());
    std::uint64_t since = from_leader(mask, simt::clock_ns());  // the last progress that was seen
    for (std::uint32_t attempt = quick_attempts;; ++attempt) {
        courier_round(mask, sink, seen);
        simt::pause(500);
        if (try_post(mask, request, attempt, false, r)) {
            return r;
        }
        const std::uint64_t now = from_leader(mask, simt::clock_ns());
        const std::uint64_t done = from_leader(mask, delivered());
        since = done != progress ? now : since;
        progress = done;
        if (now - since > timeout_ns) {
            r.failure = failure_reason::service_not_answering;
            return r;
        }
    }
}

template <class Sink>
ORCHARD_FN void mailbox_client::courier_round(simt::lane_mask mask, Sink&& sink, rounds_seen& seen) const {
    for (std::uint32_t ring = 0; ring < shape.couriers; ++ring) {
        const std::uint64_t now = from_leader(mask, simt::clock_ns());
        const bool lost = seen.since[ring] != 0 && now - seen.since[ring] > lost_after_ns;
        const served s = serve(mask, ring, no_receipt, 1, false, sink, lost ? seen.courier[ring] : 0);
        if (s.courier != seen.courier[ring] || seen.since[ring] == 0) {
            seen.courier[ring] = s.courier;
            seen.since[ring] = now;
        }
    }
}

}  // namespace orchard::device
