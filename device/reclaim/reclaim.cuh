// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reclaims: on shortage, one group retires empty slabs and returns the segment cache to the host, before any request
/// may fail. `settle` does similar work before the host inspects a heap.
///
/// `heap_state::reclaims` counts reclaims and is odd while one is under way (`reclaim_count`). A group that found no
/// memory takes the number of the next reclaim to begin (`next_reclaim`) and waits until it is over (`await_reclaim`);
/// one of the waiting groups performs it.
///
///     number      4              5                       6              7                       8
///                 | two are over | the third is under way | three are over | the fourth ...
///                 ^              ^
///                 A: needs 6     B: needs 8
///
/// Group A found nothing at 4, so that the third reclaim begins after it, and serves it once the number is 6. Group B
/// found nothing at 5: the reclaim under way may have passed the place where memory that B missed was freed, so that B
/// needs the fourth, and waits for 8. Any number of groups that fail at the same time make at most two reclaims;
/// further ones only if memory was taken and freed meanwhile (`is_worth_another`).
///
///     await_reclaim
///       try_reclaim             over? another group's turn? or this group's
///       gather                  the reclaim itself
///         retire_classes        empty slabs become segments in the segment cache
///         collect_responses     grants on their way reach the segment cache
///         drain                 the segment cache goes back to the host, where segments join into runs
///       end_reclaim
///     is_worth_another          the request failed again: is there something for another reclaim?

#include "device/reclaim/empty_slabs.cuh"
#include "device/reclaim/host_frees.cuh"
#include "device/segments/drain.cuh"
#include "device/segments/request_segments.cuh"

namespace orchard::device {

/// Returns whether a refill was posted and its segments have not arrived. A read-modify-write, since it reads the
/// newest value: the relaxed write of the group that posted would not make a plain load see it. The acquire pairs with
/// `cache_completion`. All lanes of the group call it. Cost: one atomic of the leader.
inline ORCHARD_NOINLINE bool refill_under_way(cache_upkeep& d) {
    std::uint64_t refill = 0;
    if (is_leader(d.mask) && !simt::mutation::is(fault::refill_wait)) {
        refill = d.h.state->refill_in_flight.word.fetch_add<order::acquire>(0);
    }
    return from_leader(d.mask, refill) != 0;
}

/// Returns whether to wait further for responses: for a limited number of rounds while any request is in flight; for a
/// refill until its segments have arrived, since a stalled poller may hold its response. All lanes of the
/// group call it. A request that the service has parked may stay in flight for long, hence the limit of rounds. A
/// refill is waited for up to `reclaim_patience_ns`, since a request must not fail while its segments are free.
inline ORCHARD_NOINLINE bool is_to_collect(cache_upkeep& d) {
    constexpr std::uint32_t rounds = 32;
    if (d.rounds < rounds && from_leader(d.mask, d.box->in_flight()) != 0) {
        return true;
    }
    const bool late = simt::clock_ns() - d.since > d.h.reclaim_patience_ns;
    return from_leader(d.mask, late ? 1u : 0u) == 0 && refill_under_way(d);
}

/// Delivers the responses under way, so that grants without a waiter reach the segment cache. It waits for refills, up
/// to `reclaim_patience_ns`. Other responses stay under way if the service has parked their requests. All lanes of the
/// group call it.
inline ORCHARD_FN void collect_responses(cache_upkeep& d) {
    d.since = simt::clock_ns();
    ORCHARD_NO_UNROLL
    for (d.rounds = 0; is_to_collect(d); ++d.rounds) {
        mailbox_client::go_round(d);
        simt::pause(500);
    }
    if (is_leader(d.mask)) {
        put_late_tails(d.h);
    }
}

/// Returns the number that the count of reclaims has when the first reclaim that begins after this call is over. That
/// reclaim finds all memory that was free when the caller found none. All lanes of a converged group call it. Cost: one
/// atomic of the leader. An even number n gives n + 2, an odd one n + 3: 4 gives 6, and 5 gives 8.
inline ORCHARD_NOINLINE std::uint64_t next_reclaim(const heap_view& h, lane_mask mask) {
    // A read-modify-write reads the newest value. With an older value, a reclaim that began earlier would seem to begin
    // later. The release makes what this group saw freed visible to the group that reclaims (pairs with the acquire in
    // `try_reclaim`).
    std::uint64_t reclaims = 0;
    if (is_leader(mask)) {
        reclaims = h.state->reclaims.word.fetch_add<order::acq_rel>(0);
    }
    reclaims = reclaim_count::number(from_leader(mask, reclaims));
    return reclaims + (reclaims % 2 == 0 || simt::mutation::is(fault::reclaim_age) ? 2 - reclaims % 2 : 3);
}

/// The state of the reclaim that a group needs: it is over, another group reclaims, or this group has begun it.
enum class reclaim_turn : std::uint32_t { over, other, own };

/// Returns how long the owner of the reclaim under way has for it.
ORCHARD_INLINE std::uint64_t patience_of(const heap_view& h, std::uint64_t reclaims) {
    return simt::mutation::is(fault::reclaim_patience) ? h.reclaim_patience_ns
                                                       : reclaim_count::patience(reclaims, h.reclaim_patience_ns);
}

/// Checks whether the reclaim `d.reclaim` is over, and begins a reclaim if none is under way. A reclaim that has been
/// under way for longer than `patience_of` it is begun again by the checking group. Its acquires pair with
/// `end_reclaim` and `next_reclaim`. All lanes of the group call it.
///
/// The load acquires the memory that a finished reclaim has freed, for the caller's next attempt. The swap acquires the
/// frees that groups had seen when they called `next_reclaim`, so that this reclaim finds them. `d.since` is the time
/// at which the leader first saw the word as it is.
inline ORCHARD_NOINLINE reclaim_turn try_reclaim(reclaim_state& d) {
    reclaim_turn turn = reclaim_turn::other;
    if (is_leader(d.mask)) {
        auto& word = d.h.state->reclaims.word;
        std::uint64_t found = word.load<order::acquire>();
        const std::uint64_t now = simt::clock_ns();
        d.since = found == d.reclaims ? d.since : now;
        d.reclaims = found;
        if (reclaim_count::number(found) >= d.reclaim) {
            turn = reclaim_turn::over;
        } else if (found % 2 == 0 || now - d.since > patience_of(d.h, found)) {
            // 2 n -> 2 n + 1. A reclaim that is begun again keeps its number, and gets the next owner.
            const std::uint64_t begun = found + (found % 2 == 0 ? 1 : reclaim_count::next_owner);
            if (word.compare_exchange<order::acquire>(found, begun)) {
                d.reclaims = begun;
                turn = reclaim_turn::own;
            }
        }
    }
    return static_cast<reclaim_turn>(from_leader(d.mask, static_cast<std::uint32_t>(turn)));
}

/// Ends this group's reclaim, unless another group has begun it again: the word then has another owner, and the swap
/// fails. All lanes of the group call it, after the barriers of `gather`, so that the leader's release covers the frees
/// of all lanes. It pairs with the load in `try_reclaim`.
inline ORCHARD_NOINLINE void end_reclaim(reclaim_state& d) {
    if (is_leader(d.mask)) {
        std::uint64_t own = d.reclaims;
        d.h.state->reclaims.word.compare_exchange<order::release>(own, reclaim_count::number(own) + 1);
    }
}

/// Returns whether to drain the segment cache once more. If slots are few, a pass returns little, and each
/// acknowledgement frees a slot for the next pass. If a pass has found nothing although the level says that there are
/// segments, a lane is between two steps of putting or tidying (segment_cache.cuh), and the summary hides them until it
/// goes on. The service or that lane may come late, so that passes without effect end the reclaim only after
/// `reclaim_patience_ns`. All lanes of the group call it. If 10 pieces were taken out (`emptied`) and 6 put back
/// (`kept`), the pass returned 4, and another one follows; with 6 and 6 it had no effect.
inline ORCHARD_NOINLINE bool needs_another_pass(reclaim_state& d) {
    const std::uint64_t now = from_leader(d.mask, simt::clock_ns());
    const bool hidden = d.emptied == 0 && from_leader(d.mask, cache_level(d.h)) != 0;
    d.returned_at = d.emptied != d.kept ? now : d.returned_at;
    const bool more = (d.kept != 0 || hidden) && now - d.returned_at <= d.h.reclaim_patience_ns;
    d.emptied = 0;
    d.kept = 0;
    if (more) {
        simt::pause(1000);
    }
    return more;
}

/// Performs a reclaim: retires empty slabs and returns the segment cache, so that the host can serve requests that it
/// just failed. All lanes of the group call it. Cost: reads one word of each slab of the heap.
///
/// The drain comes last, because retired slabs and responses bring segments into the segment cache. The service reads
/// its ring in order: it has seen all returns when it reads a request that is posted after the reclaim.
inline ORCHARD_FN void gather(reclaim_state& d) {
    retire_classes(d);
    d.returned_at = from_leader(d.mask, simt::clock_ns());
    do {
        collect_responses(d);
        drain(d);
    } while (needs_another_pass(d));
}

/// Waits until the reclaim with this number is over. One group at a time reclaims, the others wait for it. All lanes of
/// a converged group call it. The wait is bounded: a group that stands still in a reclaim is replaced after
/// `reclaim_patience_ns`, the next one after twice that. The caller must hold nothing for which other groups wait, such
/// as a reserved index of a slab table.
/// @param number  a result of `next_reclaim`
inline ORCHARD_NOINLINE void await_reclaim(const heap_view& h, lane_mask mask, std::uint64_t number) {
    reclaim_state d(h, mask);
    d.reclaim = number;
    d.reclaims = ~std::uint64_t{0};  // no value of the word: the first look starts the clock
    ORCHARD_NO_UNROLL
    for (;;) {
        const reclaim_turn turn = try_reclaim(d);
        if (turn == reclaim_turn::over) {
            break;
        }
        if (turn == reclaim_turn::other) {
            simt::pause(2'000);
            continue;
        }
        simt::sync(d.mask);  // the leader's acquire holds for all lanes
        gather(d);
        end_reclaim(d);  // if that failed, the loop waits for the group that began the reclaim again
    }
    simt::sync(d.mask);  // the leader's acquire holds for all lanes
}

/// The most reclaims that a request waits for. The limit bounds the time to a null in a heap whose memory others take
/// and free all the time.
inline constexpr std::uint32_t most_reclaims = 8;

/// Returns `count_served`, in all lanes of a converged group, which call it. Cost: an atomic of the leader.
inline ORCHARD_NOINLINE std::uint32_t segments_got(const heap_view& h, lane_mask mask) {
    return from_leader(mask, is_leader(mask) ? count_served(h) : 0);
}

/// Returns whether a request that failed after a reclaim should wait for another one: other groups have got segments
/// since, or have put some into the segment cache. They may have taken what the reclaim had found, and have freed it
/// again. Without another reclaim, a group that is slow would get null beside a heap of empty slabs. In all other cases
/// the reclaim saw each slab in use, or another group freed its last page later. All lanes of a converged group call
/// it; the leader's values count, so that all decide alike. Cost: an atomic and a load of the leader.
/// @param got     `segments_got` before the group needed the reclaim
/// @param so_far  the number of reclaims that the group has waited for
/// @param k       segments that the group asks for
inline ORCHARD_NOINLINE bool is_worth_another(const heap_view& h, lane_mask mask, std::uint32_t got,
                                              std::uint32_t so_far, std::uint32_t k) {
    // With another reclaim, the last three faults would seldom show.
    const bool never = so_far >= most_reclaims || simt::mutation::is(fault::one_reclaim) ||
                       simt::mutation::is(fault::refill_wait) || simt::mutation::is(fault::refill_after_lack) ||
                       simt::mutation::is(fault::scan_leave);
    bool worth = false;
    if (is_leader(mask) && !never) {
        worth = count_served(h) != got || cache_level(h) >= k;
    }
    return from_leader(mask, worth ? 1u : 0u) != 0;
}

/// Delivers responses until there are as many as there were requests at the call, also while other groups post. Returns
/// false at the mailbox's deadline. All lanes of a converged group call it. `d.seen` is what the group saw of the
/// mailbox's pollers before, so that a poller that has stopped is replaced (`go_round_again`).
///
/// Responses are counted, not matched with requests: if other groups post meanwhile, a later request may be answered
/// before an early one, and count in its place.
inline ORCHARD_FN bool deliver_posted(reclaim_state& d) {
    const std::uint64_t posted = from_leader(d.mask, d.box->device->ticket.word.load<order::relaxed>());
    const std::uint64_t started = from_leader(d.mask, simt::clock_ns());
    while (poller_word::flying(posted, from_leader(d.mask, d.box->delivered())) != 0) {
        if (from_leader(d.mask, simt::clock_ns()) - started > d.box->timeout_ns) {
            return false;
        }
        mailbox_client::go_round_again(d);
        simt::pause(1000);
    }
    return true;
}

/// Frees the blocks that the host has freed, returns the segment cache if `drain_too`, and delivers the responses to
/// all requests posted so far. If no other kernel uses the heap, then no request is under way afterwards, and with
/// `drain_too` the segment cache is empty. All lanes of a converged group call it: one warp of a kernel of the runtime,
/// before the host validates, counts or trims a heap. It ends early at the mailbox's deadline; the host checks the
/// result.
inline ORCHARD_FN void settle(const heap_view& h, lane_mask mask, bool drain_too) {
    // Responses may bring segments into the segment cache, so that a pass repeats. The limit ends the loop beside
    // kernels that refill it.
    constexpr int max_idle_passes = 8;
    reclaim_state d(h, mask);
    d.seen = rounds_seen{};
    std::uint64_t freed = 0;
    (void)free_for_host(h, &freed);
    simt::sync(mask);
    std::uint32_t least = ~0u;
    int idle_passes = 0;
    for (;;) {
        if (drain_too) {
            drain(d);
        }
        const bool delivered = deliver_posted(d);
        if (is_leader(mask)) {
            put_late_tails(h);
        }
        const std::uint32_t left = drain_too ? from_leader(mask, all_cached(h)) : 0;
        // If slots are few, a pass returns little: stop only after several passes without progress.
        idle_passes = left < least ? 0 : idle_passes + 1;
        least = left < least ? left : least;
        if (!delivered || left == 0 || idle_passes == max_idle_passes) {
            return;
        }
    }
}

}  // namespace orchard::device
