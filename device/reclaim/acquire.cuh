// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How device code gets segments and frees them. A group takes a chunk from the chunk store or segments from the
/// segment cache, else gets them from the host through the mailbox. Freed memory stays on the device, which costs a few
/// atomics and no round trip. Groups that ask for segments return the surplus to the host.

#include "device/reclaim/reclaim.cuh"
#include "device/segments/chunk_store.cuh"
#include "device/segments/refill.cuh"

/// The calls of `acquire`, in order:
///
///     read_flags                   this file                       what the heap holds, in one round trip
///     take_stored                  this file                       for a chunk: one that was freed in one piece
///       take_from_store            segments/chunk_store.cuh
///     take_cached                  segments/segment_request.cuh    from the segment cache, if it has a fitting piece
///     check_exhaustion             this file                       fails if the host is known to have no memory
///     ask_host                     this file
///       hand_back_surplus          segments/segment_request.cuh    the surplus of the segment cache
///       request_segments           segments/request_segments.cuh   a request to the host's service
///         mailbox_client::post     host_rpc/post.cuh               a slot, a ticket, a word in host memory
///         mailbox_client::wait     host_rpc/wait.cuh               the response; the group may become poller
///     take_refill                  this file                       once more the segment cache, only after a reclaim
///     note_exhaustion              segments/request_segments.cuh   for later requests, if that failed as well
///     take_spilled                 this file                       if the service is silent or a commit is blocked
///     set_result, level_after      this file                       after success: a refill, or a surplus returned
///
/// A caller may need several calls. The first, without a reclaim, may fail because memory lies in empty slabs, or in
/// the segment cache in other pieces, or is on its way. The caller then waits for a reclaim that began after this
/// failure (`next_reclaim`, `await_reclaim`), and calls again with the reclaim's number; once more if other groups got
/// segments meanwhile (`is_worth_another`). `acquire_segments`, `get_memory` (for chunks) and the search for pages
/// (`choose_hole`, `open_wanted`) do so.

namespace orchard::device {

/// Sets `d.flags` and `d.level`. All lanes of the group call it. Cost: six loads, in flight together, and two
/// shuffles.
ORCHARD_INLINE void read_flags(segment_request& d) {
    const heap_state& s = *d.h.state;
    const std::uint64_t note = s.exhausted.word.load<order::relaxed>();
    const std::uint64_t tails = s.late_tails.word.load<order::relaxed>();
    const std::uint64_t stored = s.stored_leaves.word.load<order::relaxed>();
    const bool many = has_many_portions(d.h);
    const bool closing = is_closing(d.h);
    const std::uint32_t level = cache_level(d.h);
    d.flags = from_leader(d.mask, (closing ? acquire_flags::closing : 0) | (note != 0 ? acquire_flags::exhausted : 0) |
                                      (tails != 0 ? acquire_flags::late_tails : 0) |
                                      (not_negative(stored) != 0 ? acquire_flags::stored : 0) |
                                      (many ? acquire_flags::many_portions : 0));
    d.level = from_leader(d.mask, level);
}

/// Returns whether a flag was set when the group began.
ORCHARD_INLINE bool has(const segment_request& d, std::uint32_t flag) { return (d.flags & flag) != 0; }

/// Stores the segments got as the result, and clears the note of exhaustion if there was one. All lanes of the group
/// call it.
ORCHARD_INLINE void set_result(segment_request& d) {
    *d.result = {{d.run.first, d.k}, d.leaf, leaf_count{d.leaves}};
    if (has(d, acquire_flags::exhausted) && is_leader(d.mask)) {
        d.h.state->exhausted.word.store<order::relaxed>(0);
    }
}

/// A request for segments.
struct request_of_memory {
    std::uint32_t k = 0;       ///< whole segments
    std::uint32_t leaves = 0;  ///< leaves of the tail behind them; `k` or `leaves` may be 0
    std::uint64_t bytes = 0;   ///< sum of the lanes' blocks in a chunk, to be counted; 0: no chunk
    /// The reclaim after which a failure is final. 0: no reclaim is needed, and a failure only says that no memory was
    /// found at once.
    std::uint64_t reclaim = 0;
    bool exact = false;  ///< the request is not to be rounded up (`round_request`)
    /// Advice for the segments, if `k` is not 0: the host gives it before it grants them. A first request then passes
    /// over memory that is on the device already; one after a failure (`exact`) takes that as it is, without the
    /// advice.
    advice_code advice = 0;
};

/// Sets `d.why` to the reason if the note of exhaustion covers this request, else to none. All lanes of the group call
/// it. A first call (`d.reclaim` = 0) accepts a note of any reclaim, since its failure is not final.
inline ORCHARD_NOINLINE void check_exhaustion(segment_request& d) {
    d.why = failure_reason::none;
    if (!has(d, acquire_flags::exhausted)) {
        return;
    }
    const failure_reason why = known_exhaustion(d.h, d.reclaim, leaves_wanted(d));
    d.why = static_cast<failure_reason>(from_leader(d.mask, static_cast<std::uint32_t>(why)));
}

/// Rounds a first request for a chunk up to the least length of a class of the chunk store, so that the chunk can serve
/// any request of its class later. All lanes of the group call it. Some requests are for exactly what the blocks need:
/// those after a failure, for which memory is scarce, and those whose rounded length the store could not keep.
inline ORCHARD_NOINLINE void round_request(segment_request& d) {
    const std::uint64_t leaves = leaves_wanted(d);
    d.exact_leaves = leaves;
    if (d.exact || d.h.stored_rows == 0 || leaves > stored_chunk::max_leaves) {
        return;
    }
    const std::uint32_t all = stored_chunk::rounded(static_cast<std::uint32_t>(leaves));
    const std::uint32_t rest = all % leaves_per_segment;
    const std::uint32_t tail = to_underlying(portion_leaves(d.h.portions_by, leaf_count{rest}));
    const std::uint32_t k = all / leaves_per_segment + (rest != 0 && tail == 0 ? 1 : 0);
    if (all <= chunk_store::most_leaves(d.h.max_slabs) && all <= stored_chunk::max_leaves) {
        d.k = k;
        d.leaves = tail;
    }
}

/// Undoes `round_request`. All lanes of the group call it.
inline ORCHARD_NOINLINE void make_exact(segment_request& d) {
    d.k = static_cast<std::uint32_t>(d.exact_leaves / leaves_per_segment);
    d.leaves = d.exact_leaves % leaves_per_segment;
}

/// Takes a chunk out of the chunk store, and returns whether there was one: sets `d.run`, `d.leaf`, and `d.k` and
/// `d.leaves` to its length, which may be greater than what was asked for. All lanes of the group call it. Cost: as
/// `take_from_store`.
ORCHARD_INLINE bool take_stored(segment_request& d) {
    stored_chunk c{};
    const std::uint64_t wanted = leaves_wanted(d);
    if (d.bytes == 0 || wanted > stored_chunk::max_leaves ||
        !take_from_store(d.h, d.mask, static_cast<std::uint32_t>(wanted), &c)) {
        return false;
    }
    d.stored = true;
    d.k = c.leaves / leaves_per_segment;
    d.leaves = c.leaves % leaves_per_segment;
    d.run = {segment_index{c.first / leaves_per_segment}, d.k};
    d.leaf = leaf_index{d.k == 0 ? c.first % leaves_per_segment : 0};
    return true;
}

/// Takes memory out of the chunk store, whatever its pieces, after a failure that ends a request without a reclaim: a
/// reclaim would have emptied the store. Sets `d.why` to none if there was so much memory. All
/// lanes of the group call it. Cost: a load if the store is empty; otherwise `spill`.
inline ORCHARD_NOINLINE void take_spilled(segment_request& d) {
    d.refused = d.why;
    make_exact(d);
    spill(d.h, d.mask);
    if (take_cached(d)) {
        count_chunk(d, 1);
    } else {
        d.why = d.refused;
    }
}

/// Restores the segment cache's levels after a request succeeded. All lanes of the group call it. It never waits for a
/// response.
inline ORCHARD_FN void level_after(segment_request& d) {
    level_cache(d);
    if (d.leaves != 0 && has(d, acquire_flags::many_portions)) {
        hand_back_portions(d, returns_at_once);
    }
}

/// Returns some surplus of the segment cache to the host, and then asks the host: sets `d.why`, and on success `d.run`
/// and `d.leaf`. All lanes of the group call it. It waits for the response, until a deadline.
inline ORCHARD_FN void ask_host(segment_request& d) {
    // The service reads these requests in order, so that the returned segments can join into the run that is asked for.
    // Everything above the target is returned if the segment cache never serves such a request: a run above 64
    // segments, or any if the target is 0.
    const bool all = d.k > 64 || d.h.cache_target == 0;
    const std::uint32_t keep = all ? d.h.cache_target : d.h.cache_max;
    if (d.level > keep) {
        hand_back_surplus(d, keep, returns_at_once + d.k / 32);
    }
    request_segments(d);
    read_level(d);  // it was read before the wait
}

/// Tries the segment cache again after the host failed the request: the host may have granted its last segments to a
/// refill shortly before. Returns whether the group has segments now; otherwise restores `d.why`. All lanes of the
/// group call it. It waits for a refill that is under way, up to `reclaim_patience_ns`: a reclaim that was over before
/// the refill was posted has not seen these segments.
inline ORCHARD_FN bool take_refill(segment_request& d) {
    d.refused = d.why;
    if (refill_under_way(d)) {
        collect_responses(d);
    }
    if (d.h.cache_target != 0 && take_cached(d)) {
        count_chunk(d, 1);
        return true;
    }
    d.why = d.refused;
    return false;
}

/// Gets segments with a tail: from the chunk store (only for a chunk), the segment cache, or else the host. Returns
/// none, or the reason for the failure. If `what` names a reclaim, that reclaim must be over. All lanes of a converged
/// group call it; the result is the same in all. Cost: a round trip of loads; then two atomics, one after the other, if
/// the chunk store has the chunk; a search and two atomics if the segment cache has the segments, two more for a tail;
/// otherwise a round trip to the host.
///
/// The leader acquires the memory: from the segment cache by `take_bits`, from the host by `mailbox_client::wait`. The
/// caller needs a `simt::sync` of the mask before other lanes write to the memory or to its metadata. A chunk may be
/// longer than it was asked for; `*got` says how long.
///
/// Errors: closing; too_large (more segments than the heap may commit); a shortage (`is_shortage`), which is final only
/// if `what` names a reclaim; service_not_responding or commit_blocked at the deadline, or at once if known.
/// @param got  the memory; unchanged after a failure
inline ORCHARD_NOINLINE failure_reason acquire(const heap_view& h, lane_mask mask, const request_of_memory& what,
                                               mailbox::grant* got) {
    if (what.k + (what.leaves != 0 ? 1 : 0) > h.max_slabs) {
        return failure_reason::too_large;
    }
    segment_request d(h, mask);
    read_flags(d);
    if (has(d, acquire_flags::closing)) {
        return failure_reason::closing;
    }
    d.k = what.k;
    d.leaves = what.leaves;
    d.bytes = what.bytes;
    d.reclaim = what.reclaim;
    d.result = got;
    d.advice = what.k != 0 ? what.advice : 0;
    d.from_host = d.advice != 0 && !what.exact;
    d.exact = what.exact || what.bytes == 0 || d.advice != 0;
    round_request(d);
    if (has(d, acquire_flags::late_tails) && is_leader(d.mask)) {
        put_late_tails(d.h);
    }
    if (!d.from_host &&
        ((has(d, acquire_flags::stored) && take_stored(d)) || (d.h.cache_target != 0 && take_cached(d)))) {
        count_chunk(d, 1);
    } else {
        check_exhaustion(d);
        if (d.why == failure_reason::none) {
            ask_host(d);
            // Only a failure after a reclaim is noted: no memory was found anywhere.
            if (d.reclaim != 0 && is_shortage(d.why) && !take_refill(d)) {
                note_exhaustion(d);
            }
            const bool unserved =
                d.why == failure_reason::commit_blocked || d.why == failure_reason::service_not_responding;
            if (unserved && d.h.stored_rows != 0) {
                take_spilled(d);
            }
        }
    }
    if (d.why == failure_reason::none) {
        set_result(d);
        if (!d.stored) {
            if (is_leader(d.mask)) {
                note_served(d.h);
            }
            level_after(d);
        }
    }
    return d.why;
}

/// Gets a run of `k` segments, as `acquire`. It fails only after a reclaim that began after the first attempt found
/// nothing, and usually since which no other group got segments (`is_worth_another`). Segments that other groups hold
/// at that moment, for their own requests or on the way to the host, count as in use. All lanes of a converged group
/// call it.
/// @param most  reclaims that it may wait for; 1 for a group that holds what others wait for
ORCHARD_INLINE failure_reason acquire_segments(const heap_view& h, lane_mask mask, std::uint32_t k, segment_run* run,
                                               std::uint32_t most = most_reclaims) {
    mailbox::grant got;
    failure_reason why = acquire(h, mask, {k}, &got);
    const std::uint64_t began = simt::clock_ns();
    std::uint32_t got_before = 0;
    for (std::uint32_t reclaims = 0; is_shortage(why) && reclaims < most; ++reclaims) {
        const bool late = from_leader(mask, simt::clock_ns() - began > h.mailbox.patience_ns() ? 1u : 0u) != 0;
        if (reclaims != 0 && (late || !is_worth_another(h, mask, got_before, reclaims, k))) {
            break;
        }
        got_before = segments_got(h, mask);
        const std::uint64_t reclaim = next_reclaim(h, mask);
        await_reclaim(h, mask, reclaim);
        why = acquire(h, mask, {k, 0, 0, reclaim}, &got);
    }
    *run = got;
    return why;
}

}  // namespace orchard::device
