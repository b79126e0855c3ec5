// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Being poller of a response ring: a group takes the lease, and in each round reads responses, delivers them, and
/// moves the cursor.
///
/// The poller word {held, epoch, cursor} holds the lease. Delivery is idempotent, since a slot's tag tells its uses
/// apart, so that another group may take over the lease at any time. The epoch keeps a former poller from changing the
/// word afterwards. All lanes of the group call each function, unless its comment says otherwise.

#include "device/host_rpc/client.cuh"

namespace orchard::device {

namespace mutation = simt::mutation;

namespace poller {

/// Takes the lease of the ring if it is free, or if the poller word is still `e.turn.lost`. Returns whether it did.
/// Relaxed: the responses themselves carry the order.
inline ORCHARD_NOINLINE bool take_lease(rpc_context& e) {
    std::uint64_t word = 0;
    std::uint64_t lease = 0;
    if (is_leader(e.mask)) {
        auto& poller = e.box->device->poller[e.turn.ring].word;
        word = e.turn.eager ? 0 : poller.load<simt::order::relaxed>();
        if ((word & poller_word::held) == 0) {
            word = poller.fetch_or<simt::order::relaxed>(poller_word::held);
            lease = (word & poller_word::held) == 0 ? word | poller_word::held : 0;
        } else if (word == e.turn.lost) {
            const std::uint64_t mine = poller_word::succeeded(word);
            lease = poller.compare_exchange<simt::order::relaxed>(word, mine) ? mine : 0;
        }
    }
    e.turn.poller = from_leader(e.mask, word);
    lease = from_leader(e.mask, lease);
    e.turn.lease = lease;
    e.turn.cursor = poller_word::cursor(lease);
    e.turn.deep = 1;
    e.turn.round = 0;
    e.turn.for_others = 0;
    return lease != 0;
}

/// Reads the response ring from the cursor on: `e.turn.deep` words a lane, in flight together, neighbouring lanes at
/// neighbouring words. A single word is acquired by its load; for several words, `end_reading` makes a fence.
inline ORCHARD_NOINLINE void read_batch(rpc_context& e) {
    const mailbox_client& box = *e.box;
    const auto width = static_cast<std::uint32_t>(simt::popcount(e.mask));
    const std::uint32_t end = box.shape.response_slots() - 1;
    auto at = static_cast<std::uint32_t>(e.turn.cursor) + static_cast<std::uint32_t>(simt::rank_in(e.mask));
    const auto* ring = box.host.responses + box.shape.response_position(e.turn.ring, 0);
    // These loads come before that of the response, which may be an acquire. All loads are issued before any result is
    // stored to local memory, because the store waits for the result.
    const std::uint64_t posted = box.device->posted[e.turn.ring].word.load<simt::order::relaxed>();
    const bool waits = e.turn.own_slot != poller_turn::no_slot;
    const std::uint64_t own = waits ? box.device->slots()[e.turn.own_slot].load<simt::order::relaxed>() : 0;
    if (e.turn.deep == 1) {
        // Acquire: pairs with the service's release (`mailbox_server::send`).
        e.turn.words[0] = ring[at & end].load<simt::order::acquire>();
    } else {
        std::uint64_t words[depth];
        ORCHARD_UNROLL
        for (std::uint32_t j = 0; j < depth; ++j) {
            words[j] = ring[at & end].load<simt::load_before_fence>();
            at += width;
        }
        ORCHARD_UNROLL
        for (std::uint32_t j = 0; j < depth; ++j) {
            e.turn.words[j] = words[j];
        }
    }
    e.turn.posted = posted;
    e.turn.served = (own & slot_word::answered) != 0;
}

/// Counts the responses of the batch up to the first gap: `e.turn.ready`. At most as many count as the ring may owe
/// (`responses_owed`).
inline ORCHARD_NOINLINE void count_ready(rpc_context& e) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(e.mask));
    auto index = static_cast<std::uint32_t>(simt::rank_in(e.mask));
    std::uint32_t ready = 0;
    ORCHARD_NO_UNROLL
    for (std::uint32_t j = 0; j < e.turn.deep && ready == j * width; ++j, index += width) {
        const std::uint64_t word = e.turn.words[j];
        const bool here = (response::lap_field::get(word) == e.box->shape.response_lap_tag(e.turn.cursor + index) ||
                           (mutation::is(mutation::fault::lap_tag) && word != 0)) &&
                          index < e.box->shape.responses_owed();
        const simt::lane_mask missing = e.mask & ~simt::ballot(e.mask, here);
        ready += missing == 0 ? width
                              : static_cast<std::uint32_t>(simt::popcount(e.mask & ((missing & (~missing + 1)) - 1)));
    }
    e.turn.ready = ready;
}

/// Removes from the batch what is behind a gap, and the group's own response. Returns whether the latter was there.
inline ORCHARD_NOINLINE bool take_own(rpc_context& e) {
    std::uint64_t mine = 0;
    auto index = static_cast<std::uint32_t>(simt::rank_in(e.mask));
    ORCHARD_NO_UNROLL
    for (std::uint32_t j = 0; j < e.turn.deep; ++j) {
        const std::uint64_t word = e.turn.words[j];
        const bool own = index < e.turn.ready && response::slot_field::get(word) == e.turn.own_slot &&
                         response::tag_field::get(word) == e.turn.own_tag;
        mine = own ? word : mine;
        if (own || index >= e.turn.ready) {
            e.turn.words[j] = 0;
        }
        index += static_cast<std::uint32_t>(simt::popcount(e.mask));
    }
    const simt::lane_mask holder = simt::ballot(e.mask, mine != 0);
    if (holder != 0) {
        e.turn.mine = simt::shuffle(e.mask, mine, simt::lowest_bit(holder));
    }
    return holder != 0;
}

/// Decides whether this round is the last, and makes the batch ready for delivery.
inline ORCHARD_NOINLINE void end_reading(rpc_context& e, bool took_own) {
    poller_turn& t = e.turn;
    const bool any = poller_word::flying(from_leader(e.mask, t.posted), t.cursor + t.ready) != 0;
    // The former poller may have delivered this group's own response just before this group took the lease.
    const bool served = t.mine != 0 || from_leader(e.mask, t.served ? 1u : 0u) != 0;
    t.last = ++t.round >= t.rounds || !any || (served && ++t.for_others >= rounds_for_others);
    // With the relaxed loads of the responses, the fence acquires what the service released with them (its store of the
    // response word); with the deliveries, it releases the same to the waiters. If each lane read one word, the load
    // acquired it; if that was the group's own response, no fence is needed.
    if ((t.deep != 1 || t.ready > (took_own ? 1u : 0u)) && !mutation::is(mutation::fault::response_order)) {
        simt::fence<simt::scope::system>();
    }
}

/// Delivers `at_once` responses from `e.turn.at` on, with their atomics in flight together. Repeating a delivery is
/// harmless: the tag tells a slot's uses apart. `e.turn.others` gets a bit for each response that found no waiter. One
/// lane calls it alone.
ORCHARD_INLINE void hand_over_some(rpc_context& e) {
    const std::uint64_t* words = e.turn.words + e.turn.at;
    const std::uint32_t left = e.turn.deep - e.turn.at;
    auto* slots = e.box->device->slots();
    std::uint64_t waiting[at_once];
    std::uint64_t found[at_once];
    ORCHARD_UNROLL
    for (std::uint32_t j = 0; j < at_once; ++j) {
        const std::uint64_t packed = j < left ? words[j] : 0;
        waiting[j] = slot_word::waiting(response::tag_field::get(packed));
        // With the fence before it, releases what the service released with the response; pairs with the acquire in
        // `waiting::poll`.
        found[j] = slots[response::slot_field::get(packed)].compare_exchange_if<simt::store_after_fence>(
            packed != 0, waiting[j], slot_word::delivered(response::unpack(packed)));
    }
    std::uint32_t others = 0;
    ORCHARD_UNROLL
    for (std::uint32_t j = 0; j < at_once; ++j) {
        others |= found[j] == waiting[j] ? 0 : 1u << j;
    }
    e.turn.others = others;
}

/// Delivers the response `e.turn.at`, together with the next ones. Returns true if it has no waiter: `e.turn.handed` is
/// then for the completion, and `e.turn.asked` says what its request asked for. One lane calls it alone.
inline ORCHARD_NOINLINE bool hand_over(rpc_context& e) {
    if (e.turn.at % at_once == 0) {
        hand_over_some(e);
    }
    const bool other = (e.turn.others & 1) != 0;
    e.turn.others >>= 1;
    if (!other) {
        return false;
    }
    const std::uint64_t packed = e.turn.words[e.turn.at];
    e.turn.handed = packed;
    auto& word = e.box->device->slots()[response::slot_field::get(packed)];
    std::uint64_t found = word.load<simt::order::relaxed>();
    if (!slot_word::is_forsaken(found, response::tag_field::get(packed))) {
        return false;  // a poller that was taken for lost has delivered it
    }
    e.turn.asked = found;
    return word.compare_exchange<simt::order::acq_rel>(
        found, slot_word::idle((response::tag_field::get(packed) + 1) & e.box->shape.tag_mask()));
}

/// Stores what the response `e.turn.handed` grants as `e.turn.granted`; returns its status. One lane calls it alone.
inline ORCHARD_NOINLINE response_status read_grant(rpc_context& e) {
    const response a = response::unpack(e.turn.handed);
    e.turn.granted =
        mailbox::granted_by(a, slot_word::first_field::get(e.turn.asked), slot_word::count_field::get(e.turn.asked));
    return a.status;
}

/// Passes the response `e.turn.handed` to the completion. One lane calls it alone.
template <class Completion>
ORCHARD_NOINLINE void completed_response(rpc_context_with<Completion>& e) {
    const response_status status = read_grant(e);
    e.completion(status, e.turn.granted);
}

/// Delivers the batch.
template <class Completion>
ORCHARD_FN void deliver_batch(rpc_context_with<Completion>& e) {
    if (e.turn.deep == 1 && e.turn.words[0] == 0) {
        return;  // a group of one lane that has taken its own response
    }
    ORCHARD_NO_UNROLL
    for (e.turn.at = 0; e.turn.at < e.turn.deep; ++e.turn.at) {
        if (hand_over(e)) {
            completed_response(e);
        }
    }
}

/// Moves the cursor past the batch, and gives up the lease after the last round. Returns whether there is another
/// round.
inline ORCHARD_NOINLINE bool move_cursor(rpc_context& e) {
    simt::sync(e.mask);  // the cursor must not pass a response before its lane has delivered it
    std::uint32_t dismissed = 0;
    if (is_leader(e.mask) && (e.turn.ready != 0 || e.turn.last)) {
        auto& poller = e.box->device->poller[e.turn.ring].word;
        std::uint64_t expected = poller_word::moved_to(e.turn.lease, e.turn.cursor);
        const std::uint64_t slip = mutation::is(mutation::fault::cursor) && e.turn.ready != 0 ? 1 : 0;
        const std::uint64_t next_word = poller_word::moved_to(e.turn.lease, e.turn.cursor + e.turn.ready + slip);
        if (mutation::is(mutation::fault::epoch)) {
            expected = poller.load<simt::order::relaxed>();
        }
        const bool still = poller.compare_exchange<simt::order::relaxed>(
            expected, e.turn.last ? poller_word::released(next_word) : next_word);
        dismissed = still ? 0 : 1;
    }
    e.turn.cursor += e.turn.ready;
    e.turn.poller = poller_word::released(poller_word::moved_to(e.turn.lease, e.turn.cursor));
    e.turn.deep = e.turn.ready == e.turn.deep * static_cast<std::uint32_t>(simt::popcount(e.mask)) ? depth : 1;
    if (!e.turn.last && e.turn.ready == 0) {
        simt::pause(20);
    }
    // A response ring has room for the responses owed and for one batch above its cursor. A poller that lost its lease
    // cannot move the cursor, and must therefore deliver no further batch.
    return !e.turn.last && (from_leader(e.mask, dismissed) == 0 || mutation::is(mutation::fault::dismissed_poller));
}

/// Acts as poller for at most `e.turn.rounds` rounds, if the lease is free or the poller word is still `e.turn.lost`.
/// Cost of a round: one round trip to host memory, and a compare-and-swap for each response of a lane.
template <class Completion>
ORCHARD_NOINLINE void serve(rpc_context_with<Completion>& e) {
    if (!take_lease(e)) {
        return;
    }
    do {
        read_batch(e);
        count_ready(e);
        end_reading(e, take_own(e));
        deliver_batch(e);
    } while (move_cursor(e));
}

/// Sets `e.turn.lost` if the ring's poller seems to have stopped, for a group that acts as poller repeatedly.
inline ORCHARD_NOINLINE void look_for_lost(rpc_context& e) {
    const std::uint64_t since = e.seen.since[e.turn.ring];
    const std::uint64_t now = from_leader(e.mask, simt::clock_ns());
    e.turn.lost = since != 0 && now - since > e.box->lost_after_ns ? e.seen.poller[e.turn.ring] : 0;
}

/// Notes the ring's poller word as this round saw it.
inline ORCHARD_NOINLINE void note_seen(rpc_context& e) {
    const std::uint32_t ring = e.turn.ring;
    if (e.turn.poller != e.seen.poller[ring] || e.seen.since[ring] == 0) {
        e.seen.poller[ring] = e.turn.poller;
        e.seen.since[ring] = from_leader(e.mask, simt::clock_ns());
    }
}

}  // namespace poller

template <class Completion>
ORCHARD_FN void mailbox_client::go_round(rpc_context_with<Completion>& e) {
    e.turn.begin(1);
    ORCHARD_NO_UNROLL
    for (e.turn.ring = 0; e.turn.ring < e.box->shape.pollers; ++e.turn.ring) {
        poller::serve(e);
    }
}

template <class Completion>
ORCHARD_FN void mailbox_client::go_round_again(rpc_context_with<Completion>& e) {
    e.turn.begin(1);
    ORCHARD_NO_UNROLL
    for (e.turn.ring = 0; e.turn.ring < e.box->shape.pollers; ++e.turn.ring) {
        if (!mutation::is(mutation::fault::lost_lease)) {
            poller::look_for_lost(e);
        }
        poller::serve(e);
        poller::note_seen(e);
    }
}

}  // namespace orchard::device
