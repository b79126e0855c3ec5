// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How device code gets segments and lets them go. They come from the segment cache first, then from the host by the
/// mailbox. Memory that is freed always goes into the segment cache, which takes two atomics and no mailbox; groups
/// that ask for segments hand the surplus back to the host.

#include "device/reclaim/reclaim.cuh"
#include "device/segment_cache/level.cuh"

/// The calls of `acquire`, in their order:
///
///     take_cached                     segment_cache/search.cuh          two atomics where the segment cache has it
///     check_exhaustion                host_rpc/request_segments.cuh     it is known that the host has none
///     ask_host
///       request_segments              host_rpc/request_segments.cuh     a request to one shard's service
///         mailbox_client::post        host_rpc/post.cuh                 a slot, a ticket, a word in host memory
///         mailbox_client::wait        host_rpc/wait.cuh                 the response, as poller where no group is
///     take_refill                     only behind a reclaim
///     level_after                     segment_cache/level.cuh           a refill, or a surplus handed back

namespace orchard::device {

/// Says what was got. All lanes.
inline ORCHARD_NOINLINE void set_result(segment_request& d) {
    *d.result = {d.run, d.leaf, leaf_count{d.leaves}};
    if (is_leader(d.mask)) {
        note_grant(d.h, *d.result);
        if (d.noted) {
            d.h.state->exhausted.word.store<order::relaxed>(0);
        }
    }
}

/// What a group asks for.
struct request_of_memory {
    std::uint32_t k;           ///< segments
    std::uint32_t leaves = 0;  ///< and a tail of so many; one of both may be 0
    std::uint64_t bytes = 0;   ///< the lanes' blocks in a chunk, which is counted then; 0: it is for no chunk
    /// The reclaim behind which a refusal is the last word; 0: none is needed, and a refusal says nothing but that no
    /// memory was found at once.
    std::uint64_t reclaim = 0;
};

/// Sets `d.why` to the reason for which the request is known to be refused, or to none. All lanes.
inline ORCHARD_NOINLINE void check_exhaustion(segment_request& d) {
    d.why = failure_reason::none;
    if (!d.noted) {
        return;
    }
    const failure_reason why = known_exhaustion(d.h, d.reclaim, leaves_wanted(d));
    d.why = static_cast<failure_reason>(from_leader(d.mask, static_cast<std::uint32_t>(why)));
}

/// After a request: keeps the levels.
inline ORCHARD_FN void level_after(segment_request& d) {
    level_cache(d);
    if (d.leaves != 0) {
        hand_back_portions(d, returns_at_once);
    }
}

/// What a group looks at before it asks for segments.
struct acquire_flags {
    bool closing;
    bool exhausted;  ///< there is a note of exhaustion
};

/// All lanes. Cost: two loads side by side.
inline ORCHARD_FN acquire_flags read_flags(const heap_view& h, lane_mask mask) {
    const std::uint64_t note = h.state->exhausted.word.load<order::relaxed>();
    const std::uint32_t flags = from_leader(mask, (is_closing(h) ? 1u : 0u) | (note != 0 ? 2u : 0u));
    return {(flags & 1) != 0, (flags & 2) != 0};
}

/// Hands back some of what the segment cache has too much, and asks the host.
inline ORCHARD_FN void ask_host(segment_request& d) {
    // The host should find in one piece what the segment cache has in pieces, or never serves.
    const bool all = d.k > 64 || d.h.cache_target == 0;
    hand_back_surplus(d, all ? d.h.cache_target : d.h.cache_max, returns_at_once + d.k / 32);
    request_anywhere(d);
}

/// After a refusal: the host may have granted a refill before, which has the segments. Returns whether the group has
/// them now. All lanes.
inline ORCHARD_FN bool take_refill(segment_request& d) {
    d.elsewhere = d.why;
    if (refill_under_way(d) != 0) {
        collect_answers(d);
    }
    if (d.h.cache_target != 0 && take_cached(d)) {
        count_chunk(d, 1);
        return true;
    }
    d.why = d.elsewhere;
    return false;
}

/// Gets segments with a tail: from the segment cache, else from the host. Where `what` names a reclaim, that is over.
/// All lanes of a converged group; the same result in all. Errors: as `failure_reason`. Cost: two atomics on a segment
/// cache hit, two more for a tail; a round trip (3 to 5 us) otherwise.
inline ORCHARD_NOINLINE failure_reason acquire(const heap_view& h, lane_mask mask, const request_of_memory& what,
                                               mailbox::grant* got) {
    // A run lies in one shard.
    const std::uint32_t whole = what.k + (what.leaves != 0 ? 1 : 0);
    if (whole > h.max_slabs || whole > h.segments_per_shard) {
        return failure_reason::too_large;
    }
    const acquire_flags flags = read_flags(h, mask);
    if (flags.closing) {
        return failure_reason::closing;
    }
    segment_request d(h, mask);
    d.noted = flags.exhausted;
    d.k = what.k;
    d.leaves = what.leaves;
    d.bytes = what.bytes;
    d.reclaim = what.reclaim;
    d.result = got;
    if (is_leader(d.mask)) {
        put_late_tails(d.h);
    }
    if (d.h.cache_target != 0 && take_cached(d)) {
        count_chunk(d, 1);
    } else {
        check_exhaustion(d);
        if (d.why == failure_reason::none) {
            ask_host(d);
            if (d.reclaim != 0 && is_shortage(d.why) && !take_refill(d)) {
                note_exhaustion(d);
            }
        }
    }
    if (d.why == failure_reason::none) {
        set_result(d);
        level_after(d);
    }
    return d.why;
}

/// Gets a run of `k` segments, as `acquire`; refuses only behind a reclaim that began when nothing was found at first.
/// What other groups hold at that moment for requests of their own, or are about to hand back, counts as taken.
ORCHARD_INLINE failure_reason acquire_segments(const heap_view& h, lane_mask mask, std::uint32_t k, segment_run* run) {
    mailbox::grant got;
    failure_reason why = acquire(h, mask, {k}, &got);
    if (is_shortage(why)) {
        const std::uint64_t reclaim = next_reclaim(h, mask);
        await_reclaim(h, mask, reclaim);
        why = acquire(h, mask, {k, 0, 0, reclaim}, &got);
    }
    *run = got;
    return why;
}

}  // namespace orchard::device
