// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Being poller of a response ring: a group takes the lease, and in each round reads responses, delivers them, and
/// moves the cursor.
///
///     poller word             what happens                                     function
///     {0, e, c}               no poller
///     {1, e, c}               a group has the lease                            take_lease
///     {1, e, c + n}           n responses delivered                            move_cursor
///     {0, e + 1, c + n}       the lease is given up after the last round       move_cursor
///     {1, e + 1, c + n}       taken over: the word stood still for too long    take_lease of another group
///
///     response ring           | delivered | n ready | gap | perhaps more |     c mod length: the first that is not
///                                         ^ c       ^ c + n                    delivered
///
/// The poller word {held, epoch, cursor} holds the lease. Delivery is idempotent, since a slot's tag tells its uses
/// apart, so that another group may take over the lease at any time. The epoch keeps a former poller from changing the
/// word afterwards: each of its compare-and-swaps expects its own epoch. All lanes of the group call each function,
/// unless its comment says otherwise.

#include "device/host_rpc/client.cuh"

namespace orchard::device {

namespace mutation = simt::mutation;

namespace poller {

/// Returns true if the group has the lease now: the lease was free, or the poller word was still `e.turn.lost`. Sets
/// `e.turn.poller` to the word found, and begins the turn. Cost: a load (none with `e.turn.eager`), an atomic if the
/// lease is available, two shuffles.
///
/// Relaxed: the word carries nothing but itself, and the responses carry their own order. Of several groups, one gets
/// the lease: `fetch_or` tells it that `held` was clear, or its compare-and-swap finds the lost word. A group that took
/// over has raised the epoch, so that the same lost word does not come back.
inline ORCHARD_NOINLINE bool take_lease(rpc_context& e) {
    std::uint64_t word = 0;
    std::uint64_t lease = 0;
    if (is_leader(e.mask)) {
        auto& poller = e.box->device->poller[e.turn.ring].word;
        word = e.turn.eager ? 0 : poller.load<simt::order::relaxed>();
        if ((word & poller_word::held) == 0) {
            // If another group was faster, this sets a bit that is set already, and the word found says so.
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
/// neighbouring words (drawn at `poller_turn`). Cost: that many loads of host memory a lane, and one or two loads of
/// device memory. A single word is acquired by its load; for several words, `end_reading` makes a fence, since several
/// acquiring loads would wait for each other.
///
/// The index is taken from the low 32 bits of the cursor: the length of a ring is a power of two of at most 2^15.
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

/// Counts the responses of the batch up to the first gap: `e.turn.ready`, the same in all lanes. The service writes the
/// ring in order, but the loads of a batch may see a later word and miss an earlier one. Cost: a ballot for each word
/// of a lane.
///
/// A word is new if its lap tag is that of its position. At most as many count as the ring may owe (`responses_owed`).
/// The ring has room for the responses owed and for one batch of that length above the cursor; in a small mailbox, 128
/// words would be more than the whole ring.
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
        // All W words of this row are there, or only those of the lanes below the lowest lane that misses its word.
        ready += missing == 0 ? width
                              : static_cast<std::uint32_t>(simt::popcount(e.mask & ((missing & (~missing + 1)) - 1)));
    }
    e.turn.ready = ready;
}

/// Returns true if the group's own response was in the batch: it is then in `e.turn.mine`, in all lanes. Removes from
/// the batch the words behind a gap, and the own response, which needs no delivery. A word of 0 stands for nothing to
/// deliver; no response is 0, since no status is. Cost: a ballot; a shuffle if it was there.
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

/// Decides whether this round is the last (`e.turn.last`), and makes the batch ready for delivery.
///
/// The round is the last if the turn is over, if no response of this ring is under way, or if the group has its own
/// response and has served other groups for `rounds_for_others` rounds. `posted` may be an old value; a poller that
/// leaves too early is replaced by the next group that looks at the lease.
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

/// Delivers `at_once` responses from `e.turn.at` on, with their atomics in flight together. `e.turn.others` gets a bit
/// for each response that found no waiter. One lane calls it alone. Cost: one atomic for each response.
///
///     slot:  waiting(t) --> delivered(t, response)      any other word: unchanged
///
/// Repeating a delivery is harmless: the tag tells a slot's uses apart. A poller that was taken for stopped and goes on
/// may deliver a response a second time, and then finds the slot answered, idle, or in its next use.
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

/// Returns true if the response `e.turn.at` has no waiter: `e.turn.handed` is then for the completion, and
/// `e.turn.asked` says what its request asked for. Otherwise the response has been delivered, now or by another poller.
/// One lane calls it alone, for each `e.turn.at` in order: every call at a multiple of `at_once` delivers for the next
/// calls as well. Cost: its share of `hand_over_some`; without a waiter a load and an atomic.
///
/// The compare-and-swap frees the slot before the grant is completed. If two pollers find the same response without a
/// waiter, one of them wins, so that the grant reaches the segment cache once.
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
    if (!slot_word::is_unattended(found, response::tag_field::get(packed))) {
        return false;  // a poller that was taken for lost has delivered it
    }
    e.turn.asked = found;
    return word.compare_exchange<simt::order::acq_rel>(
        found, slot_word::idle((response::tag_field::get(packed) + 1) & e.box->shape.tag_mask()));
}

/// Returns the status of the response `e.turn.handed`, and stores what it grants as `e.turn.granted`. The size comes
/// from the slot's word (`slot_word::left_unattended`), as a response to an exact request does not carry it. One lane
/// calls it alone.
inline ORCHARD_NOINLINE response_status read_grant(rpc_context& e) {
    const response a = response::unpack(e.turn.handed);
    e.turn.granted = mailbox::granted_by(a, slot_word::asked_segments_field::get(e.turn.asked),
                                         slot_word::asked_leaves_field::get(e.turn.asked));
    return a.status;
}

/// Passes the response `e.turn.handed` to the completion. One lane calls it alone; other lanes may be doing the same
/// with their responses.
template <class Completion>
ORCHARD_NOINLINE void completed_response(rpc_context_with<Completion>& e) {
    const response_status status = read_grant(e);
    e.completion(status, e.turn.granted);
}

/// Delivers the batch: each lane its own words, in their order. Cost: see `hand_over`; the lanes wait for the lane with
/// the most responses.
template <class Completion>
ORCHARD_FN void deliver_batch(rpc_context_with<Completion>& e) {
    if (e.turn.deep == 1 && e.turn.words[0] == 0) {
        return;  // this lane has nothing: a gap, or the group's own response
    }
    ORCHARD_NO_UNROLL
    for (e.turn.at = 0; e.turn.at < e.turn.deep; ++e.turn.at) {
        if (hand_over(e)) {
            completed_response(e);
        }
    }
}

/// Returns true if there is another round. Moves the cursor past the batch, and gives up the lease after the last
/// round. Cost: an atomic if the batch was not empty or the round is the last; a barrier, a shuffle.
///
/// If the compare-and-swap fails, another group has taken the lease over, and begins at the old cursor: it delivers
/// this batch again, to slots that do not wait for it any longer.
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
        // Relaxed: the word carries nothing but itself. Its new value gives up the lease and moves the cursor in one
        // step.
        const bool still = poller.compare_exchange<simt::order::relaxed>(
            expected, e.turn.last ? poller_word::released(next_word) : next_word);
        dismissed = still ? 0 : 1;
    }
    e.turn.cursor += e.turn.ready;
    e.turn.poller = poller_word::released(poller_word::moved_to(e.turn.lease, e.turn.cursor));
    // A full batch means traffic: read more words in the next round.
    e.turn.deep = e.turn.ready == e.turn.deep * static_cast<std::uint32_t>(simt::popcount(e.mask)) ? depth : 1;
    if (!e.turn.last && e.turn.ready == 0) {
        simt::pause(20);
    }
    // A response ring has room for the responses owed and for one batch above its cursor. A poller that lost its lease
    // cannot move the cursor, and must therefore deliver no further batch.
    return !e.turn.last && (from_leader(e.mask, dismissed) == 0 || mutation::is(mutation::fault::dismissed_poller));
}

/// Acts as poller for at most `e.turn.rounds` rounds, if the lease is free or the poller word is still `e.turn.lost`;
/// otherwise only notes the word in `e.turn.poller`. Results: `e.turn.mine`, the group's own response if it was read,
/// and `e.turn.poller`. Cost of a round: one round trip to host memory, and a compare-and-swap for each response of a
/// lane.
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

/// Sets `e.turn.lost` if the ring's poller seems to have stopped, for a group that acts as poller repeatedly: its word
/// has not changed for `lost_after_ns`. Cost: a read of the clock, a shuffle.
inline ORCHARD_NOINLINE void look_for_lost(rpc_context& e) {
    const std::uint64_t since = e.seen.since[e.turn.ring];
    const std::uint64_t now = from_leader(e.mask, simt::clock_ns());
    e.turn.lost = since != 0 && now - since > e.box->lost_after_ns ? e.seen.poller[e.turn.ring] : 0;
}

/// Notes the ring's poller word as this round saw it, and the time if it has changed. Cost: if so, a read of the clock
/// and a shuffle.
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
