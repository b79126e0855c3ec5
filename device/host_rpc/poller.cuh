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
///     {1, e + 2, c + n}       a row of its recovery is delivered               move_cursor
///
///     response ring           | delivered | n ready | gap | perhaps more |     c mod length: the first that is not
///                                         ^ c       ^ c + n                    delivered
///
/// The poller word {held, epoch, cursor} holds the lease. Another group may take it over at any time: tags and the
/// numbers of take-overs tell the uses of a slot apart (`begin_recovery`). The epoch keeps a former poller from
/// changing the word afterwards: each of its compare-and-swaps expects its own epoch. All lanes of the group call each
/// function, unless its comment says otherwise.

#include "device/host_rpc/client.cuh"

namespace orchard::device {

namespace mutation = simt::mutation;

namespace poller {

/// Returns true if the group has the lease now: the lease was free, or the poller word was still `e.turn.lost`. Sets
/// `e.turn.poller` to the word found and `e.turn.sure_until`, and begins the turn; `begin_recovery` tells the two cases
/// apart. Cost: a load (none with `e.turn.eager`), an atomic if the lease is available, two shuffles.
///
/// Relaxed: the word carries nothing but itself, and the responses carry their own order. Of several groups, one gets
/// the lease: `fetch_or` tells it that `held` was clear, or its compare-and-swap finds the lost word. A group that took
/// over has raised the epoch, so that the same lost word does not come back.
inline ORCHARD_NOINLINE bool take_lease(rpc_context& e) {
    std::uint64_t word = 0;
    std::uint64_t lease = 0;
    if (is_leader(e.mask)) {
        e.turn.sure_until = simt::cycles() + e.box->lost_after_ns / 8;  // before the atomic
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
    e.turn.takeover = 0;
    e.turn.cursor = poller_word::cursor(lease);
    e.turn.deep = 1;
    e.turn.round = 0;
    e.turn.for_others = 0;
    return lease != 0;
}

/// Begins the recovery of the ring after a take-over; otherwise does nothing. A take-over is recognised by the epoch,
/// which `take_lease` has raised. All lanes of the group call it, after `take_lease`. Cost after a take-over, which
/// happens at most once in `lost_after_ns`: an atomic and a shuffle; then for each word of a lane a read of host memory
/// and an atomic of the leader, and for each response a load and three atomics, four if its slot has a number already.
///
/// The stopped poller may go on at any time. Its compare-and-swap expects the slot's word that it found. The tag in
/// this word comes back after 256 uses, and does not stop it alone. Therefore each slot whose response it may have
/// read, one batch from the cursor on, gets the number of this take-over before the response is delivered. The number
/// stays until another take-over replaces it, or until the owner frees the slot with the number of its claim
/// (`waiting::take_response`). A number comes back after 2^19 - 1 take-overs of the ring.
///
///     stopped poller             this group                      slot s
///     reads response {s, t}                                      waiting(t, 0)
///     stops                      takes over: number 5            waiting(t, 5)
///                                has the lease; delivers         delivered(t, 5), then idle(t + 1, 5)
///                                ... 256 uses of s ...           waiting(t, 5): in a later use
///     expects waiting(t, 0):     changes nothing
///
/// The cursor moves once, past all of it: no response that two pollers have read lies behind a free lease. A group that
/// stops in the recovery is in its turn taken over from the same cursor. Each of its deliveries expects a word that was
/// read before the lease was checked. The group's own response is delivered to its slot, as all others.
///
/// A recovery delivers fewer responses than there are tags, so that no slot reaches the same tag again meanwhile.
inline ORCHARD_NOINLINE void begin_recovery(rpc_context& e) {
    static_assert(longest_batch < 1u << mailbox::max_tag_bits);
    if (e.turn.lease == (e.turn.poller | poller_word::held)) {
        return;
    }
    std::uint64_t before = 0;
    if (is_leader(e.mask)) {
        before = e.box->device->poller[e.turn.ring].takeovers.fetch_add<simt::order::relaxed>(1);
    }
    e.turn.takeover = mailbox::device_part::lease::number_after(from_leader(e.mask, before));
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
/// The ring has room for the responses owed and for one batch of that length above the cursor of the poller word; in a
/// small mailbox, 128 words would be more than the whole ring.
inline ORCHARD_NOINLINE void count_ready(rpc_context& e) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(e.mask));
    auto index = static_cast<std::uint32_t>(simt::rank_in(e.mask));
    // In a recovery, the cursor of the poller word stands still, and all rows together are one longest batch: each
    // recovery of the ring then covers the same responses, whatever its width.
    const std::uint32_t owed = e.box->shape.responses_owed();
    const std::uint32_t most = (e.turn.takeover != 0 && owed > longest_batch ? longest_batch : owed) -
                               static_cast<std::uint32_t>(e.turn.cursor - poller_word::cursor(e.turn.lease));
    std::uint32_t ready = 0;
    ORCHARD_NO_UNROLL
    for (std::uint32_t j = 0; j < e.turn.deep && ready == j * width; ++j, index += width) {
        const std::uint64_t word = e.turn.words[j];
        const bool here = (response::lap_field::get(word) == e.box->shape.response_lap_tag(e.turn.cursor + index) ||
                           (mutation::is(mutation::fault::lap_tag) && word != 0)) &&
                          index < most;
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
                         response::tag_field::get(word) == e.turn.own_tag && e.turn.takeover == 0;
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

/// Returns the poller word of the ring as it is now. One lane calls it alone. Cost: an atomic, since a load could
/// return an old word; the atomic also keeps earlier loads before it.
inline ORCHARD_FN std::uint64_t newest_word(const rpc_context& e) {
    return e.box->device->poller[e.turn.ring].word.fetch_or<simt::order::acq_rel>(0);
}

/// Returns true if the group had the lease after it had read the batch. The leader calls it alone. Cost: a read of the
/// cycle counter; an atomic if the turn takes long.
///
/// A lease is taken over only after its word has stood still for `lost_after_ns`. An eighth of this number of cycles is
/// a shorter time on any GPU that makes more than 125 million cycles a second. The counter must run on while a warp is
/// not scheduled, and the warp must stay on its multiprocessor. After that time, the word itself tells: cursor and
/// epoch together do not come back.
inline ORCHARD_FN bool has_read_in_time(const rpc_context& e) {
    return simt::cycles() <= e.turn.sure_until || mutation::is(mutation::fault::late_reading) ||
           newest_word(e) == e.turn.lease;
}

/// Returns true if the batch counts: the group still had the lease when it had read it. While the group has the lease,
/// no slot of the batch can reach the same tag again. Later take-overs are seen in the words of the slots
/// (`begin_recovery`). Also decides whether this round is the last (`e.turn.last`), and makes the batch ready for
/// delivery. Cost: `has_read_in_time`, a shuffle, a fence.
///
/// The round is the last if the turn is over, if no response of this ring is under way, or if the group has its own
/// response and has served other groups for `rounds_for_others` rounds. `posted` may be an old value; a poller that
/// leaves too early is replaced by the next group that looks at the lease.
inline ORCHARD_NOINLINE bool end_reading(rpc_context& e, bool took_own) {
    poller_turn& t = e.turn;
    constexpr std::uint32_t in_time = 1;
    constexpr std::uint32_t any = 2;
    constexpr std::uint32_t served = 4;
    std::uint32_t seen = 0;
    if (is_leader(e.mask)) {
        seen |= has_read_in_time(e) ? in_time : 0;
        seen |= poller_word::flying(t.posted, t.cursor + t.ready) != 0 ? any : 0;
        // The former poller may have delivered this group's own response just before this group took the lease.
        seen |= t.mine != 0 || t.served ? served : 0;
    }
    seen = from_leader(e.mask, seen);
    t.last = t.takeover == 0 && (++t.round >= t.rounds || (seen & any) == 0 ||
                                 ((seen & served) != 0 && ++t.for_others >= rounds_for_others));
    if ((seen & in_time) == 0) {
        // The successor delivers the group's own response, too.
        t.mine = took_own ? 0 : t.mine;
        return false;
    }
    // With the relaxed loads of the responses, the fence acquires what the service released with them (its store of the
    // response word); with the deliveries, it releases the same to the waiters. If each lane read one word, the load
    // acquired it; if that was the group's own response, no fence is needed.
    if ((t.deep != 1 || t.ready > (took_own ? 1u : 0u)) && !mutation::is(mutation::fault::response_order)) {
        simt::fence<simt::scope::system>();
    }
    return true;
}

/// Delivers `at_once` responses from `e.turn.at` on, with their atomics in flight together. `e.turn.others` gets a bit
/// for each response that it did not deliver: the slot is unattended, has a `takeover`, or no longer awaits the
/// response. One lane calls it alone. Cost: one atomic for each response.
///
///     slot:  waiting(t) --> delivered(t, response)      any other word: unchanged
///
/// A second delivery fails: the slot has another state or tag, or, when the tag has come back, another `takeover`.
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

/// Returns true if the group has the lease. One lane calls it alone. Cost: `newest_word`. The cursor is not compared,
/// as the leader's change of it may still be under way.
inline ORCHARD_FN bool has_lease(const rpc_context& e) { return poller_word::same_turn(newest_word(e), e.turn.lease); }

/// Delivers the response `e.turn.at` to a slot whose word is not simply that of a waiter. Returns true if the slot is
/// unattended: `e.turn.handed` is then for the completion, and `e.turn.asked` says what its request asked for. Returns
/// false if the response is delivered, or if a successor will deliver it. One lane calls it alone. Cost: a load and an
/// atomic; with a `takeover` one more atomic.
///
/// The slot is in the use that the response is for, since the group had the lease after it had read the response
/// (`end_reading`), and no successor has delivered there since: a word without `takeover` shows this; with one, the
/// lease is read after the word. The compare-and-swap expects the whole word, which a poller that takes the ring over
/// from now on changes (`begin_recovery`).
///
/// It frees the slot before the grant is completed. If two pollers find the same response without a waiter, one of them
/// wins, so that the grant reaches the segment cache once.
inline ORCHARD_NOINLINE bool hand_over_known(rpc_context& e) {
    const std::uint64_t packed = e.turn.words[e.turn.at];
    const response a = response::unpack(packed);
    e.turn.handed = packed;
    auto& word = e.box->device->slots()[a.slot];
    std::uint64_t found = word.load<simt::order::relaxed>();
    // Once again only if its group has just given up, or the ring has just been taken over.
    while (slot_word::is_awaited(found, a.tag)) {
        const std::uint32_t takeover = slot_word::takeover_field::get(found);
        if ((takeover != 0 || e.turn.takeover != 0) && !has_lease(e) && !mutation::is(mutation::fault::late_delivery)) {
            return false;
        }
        const bool unattended = (found & slot_word::unattended) != 0;
        e.turn.asked = found;
        if (word.compare_exchange<simt::order::acq_rel>(
                found, unattended ? slot_word::idle((a.tag + 1) & e.box->shape.tag_mask(), takeover)
                                  : slot_word::delivered(a, takeover))) {
            return unattended;
        }
    }
    return false;  // a poller that was taken for lost has delivered it
}

/// Writes the number of the recovery into the slot of the response `packed`, if the slot still awaits it. One lane
/// calls it alone. Cost: an atomic, two if the word has another form than `waiting(tag)`. If several pollers mark a
/// slot, the last number stays.
inline ORCHARD_FN void mark(rpc_context& e, std::uint64_t packed) {
    const std::uint32_t tag = response::tag_field::get(packed);
    auto& word = e.box->device->slots()[response::slot_field::get(packed)];
    std::uint64_t found = slot_word::waiting(tag);
    while (!word.compare_exchange<simt::order::relaxed>(found, slot_word::taken_over(found, e.turn.takeover)) &&
           slot_word::is_awaited(found, tag)) {
    }
}

/// Returns true if the response `e.turn.at` needs `hand_over_known`; otherwise there is nothing left to do. In a
/// recovery it only marks the slot. One lane calls it alone, for each `e.turn.at` in order: every call at a multiple of
/// `at_once` delivers for the next calls as well. Cost: its share of `hand_over_some`; in a recovery `mark`.
inline ORCHARD_NOINLINE bool hand_over(rpc_context& e) {
    if (e.turn.takeover != 0) {
        const std::uint64_t packed = e.turn.words[e.turn.at];
        if (packed != 0 && !mutation::is(mutation::fault::takeover_mark)) {
            mark(e, packed);
        }
        return packed != 0;
    }
    if (e.turn.at % at_once == 0) {
        hand_over_some(e);
    }
    const bool other = (e.turn.others & 1) != 0;
    e.turn.others >>= 1;
    return other;
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
        if (hand_over(e) && hand_over_known(e)) {
            completed_response(e);
        }
    }
}

/// Returns true if there is another round. Moves the cursor past the batch, and gives up the lease after the last
/// round. Cost: an atomic if the batch was not empty or the round is the last; a barrier.
///
/// If the compare-and-swap fails, another group has taken the lease over, and begins at the old cursor: it delivers
/// this batch again, to slots that do not wait for it any longer. This group then delivers no further batch
/// (`end_reading`), since a response ring has room for the responses owed and for one batch above its cursor.
///
/// In a recovery, the cursor stays where it is until the last row: the one with a gap, or that with which the longest
/// batch is complete. Before that, a new epoch shows other groups that the poller is at work.
inline ORCHARD_NOINLINE bool move_cursor(rpc_context& e) {
    poller_turn& t = e.turn;
    simt::sync(e.mask);  // the cursor must not pass a response before its lane has delivered it
    t.cursor += t.ready;
    const bool is_full = t.ready == t.deep * static_cast<std::uint32_t>(simt::popcount(e.mask));
    const auto unmoved = static_cast<std::uint32_t>(t.cursor - poller_word::cursor(t.lease));
    const bool recovers = t.takeover != 0 && is_full && unmoved < longest_batch;
    std::uint64_t word = recovers ? poller_word::succeeded(t.lease) : poller_word::moved_to(t.lease, t.cursor);
    if (mutation::is(mutation::fault::cursor) && t.ready != 0) {
        word = poller_word::moved_to(word, t.cursor + 1);
    }
    std::uint32_t failed = 0;
    if (is_leader(e.mask) && (word != t.lease || t.last)) {
        auto& poller = e.box->device->poller[t.ring].word;
        std::uint64_t expected = t.lease;
        if (mutation::is(mutation::fault::epoch)) {
            expected = poller.load<simt::order::relaxed>();
        }
        // Relaxed: the word carries nothing but itself. Its new value gives up the lease and moves the cursor in one
        // step.
        const std::uint64_t next = t.last ? poller_word::released(word) : word;
        if (recovers) {
            failed = poller.compare_exchange<simt::order::relaxed>(expected, next) ? 0 : 1;
        } else {
            poller.compare_exchange<simt::order::relaxed>(expected, next);  // does not wait for the result
        }
    }
    t.lease = word;
    if (recovers) {
        // After a failure the turn ends here. The successor wrote the same word as this group would have, so that a
        // later look could not tell.
        return from_leader(e.mask, failed) == 0;
    }
    t.takeover = 0;
    t.poller = poller_word::released(word);
    // A full batch means traffic: read more words in the next round.
    t.deep = is_full ? depth : 1;
    if (!t.last && t.ready == 0) {
        simt::pause(20);
    }
    return !t.last;
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
    begin_recovery(e);
    do {
        read_batch(e);
        count_ready(e);
        if (!end_reading(e, take_own(e))) {
            return;
        }
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
