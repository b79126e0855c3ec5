// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How device code gets segments and lets them go. They come from the magazine first, then from the host by the
/// mailbox. Memory that is freed always goes into the magazine, which takes two atomics and no mailbox; groups that
/// ask for segments hand the surplus back to the host.

#include "device/magazine_level.cuh"
#include "device/reclaim.cuh"

namespace orchard::device {

/// Returns the reason of failure that an answer of the host stands for.
ORCHARD_INLINE failure_reason reason_of(answer_status status) {
    switch (status) {
        case answer_status::granted: return failure_reason::none;
        case answer_status::fragmented: return failure_reason::fragmented;
        case answer_status::too_large: return failure_reason::too_large;
        case answer_status::closing: return failure_reason::closing;
        case answer_status::commit_failed: return failure_reason::commit_failed;
        case answer_status::commit_blocked: return failure_reason::commit_blocked;
        case answer_status::out_of_host_budget: return failure_reason::out_of_memory_host_budget;
        case answer_status::out_of_range: return failure_reason::out_of_memory_virtual_range;
        default: return failure_reason::out_of_memory_device_budget;
    }
}

/// Counts a request that was posted.
inline ORCHARD_NOINLINE void count_request(const dealings& d) {
    if (is_leader(d.mask)) {
        d.h.add(counter::posts, 1);
        if (d.wait.failure != failure_reason::none) {
            d.h.add(counter::abandoned, 1);
        }
    }
}

/// Counts the chunk that is being asked for, and its blocks; `n` is 1, or -1 where it has been counted in vain. All
/// lanes.
inline ORCHARD_NOINLINE void count_chunk(dealings& d, int n) {
    if (is_leader(d.mask) && d.bytes != 0) {
        const auto times = static_cast<std::uint64_t>(std::int64_t{n});
        d.h.add(counter::chunk_allocations, times);
        d.h.add(counter::live_chunks, times);
        d.h.add(counter::allocations, times * static_cast<std::uint64_t>(simt::popcount(d.mask)));
        d.h.add(counter::allocated_bytes, times * d.bytes);
    }
}

/// What is asked for, in leaves. Where one request is for less than another, it is a part of it.
ORCHARD_INLINE std::uint64_t leaves_wanted(const dealings& d) {
    return std::uint64_t{d.k} * leaves_per_segment + d.leaves;
}

/// Posts one request for `d.k` segments and a tail of `d.leaves` to `shard`, and waits. The reason is in `d.why`, what
/// was got in `d.run` and `d.leaf`.
inline ORCHARD_FN void request_segments(dealings& d, std::uint32_t shard) {
    prepare_post(d, shard, {mailbox::post_kind::grant, 0, 0, {segment_index{0}, d.k}, false, leaf_count{d.leaves}},
                 false);
    mailbox_client::post(d);
    d.why = d.post.made.failure;
    if (d.why != failure_reason::none) {
        return;
    }
    count_chunk(d, 1);  // while the answer travels
    const outcome o = mailbox_client::wait(d);
    d.run = o.result.run;
    d.leaf = o.leaf;
    d.why = o.failure != failure_reason::none ? o.failure : reason_of(o.result.status);
    count_request(d);
    if (d.why != failure_reason::none) {
        count_chunk(d, -1);
    }
    if (d.why == failure_reason::commit_blocked && is_leader(d.mask)) {
        refusals::note_refusal(*d.box, mailbox::device_part::blocked_from(leaves_wanted(d)));
    }
}

/// Whether there may be memory later, or for less: all that is wrong is that none is free now.
ORCHARD_INLINE bool is_shortage(failure_reason why) {
    return why == failure_reason::out_of_memory_device_budget || why == failure_reason::out_of_memory_host_budget ||
           why == failure_reason::out_of_memory_virtual_range || why == failure_reason::fragmented ||
           why == failure_reason::commit_failed;
}

/// Whether another shard, or the same one after a reclaim, may have what this one has not.
ORCHARD_INLINE bool may_be_elsewhere(failure_reason why) {
    return is_shortage(why) || why == failure_reason::too_large;
}

/// Of what two shards said, the reason that says more: what is too large for one may fit the other.
ORCHARD_INLINE failure_reason telling_more(failure_reason a, failure_reason b) {
    const auto rank = [](failure_reason why) {
        return why == failure_reason::commit_failed                 ? 6
               : why == failure_reason::fragmented                  ? 5
               : why == failure_reason::out_of_memory_host_budget   ? 4
               : why == failure_reason::out_of_memory_virtual_range ? 3
               : why == failure_reason::out_of_memory_device_budget ? 2
               : why == failure_reason::too_large                   ? 1
                                                                    : 0;
    };
    return rank(a) >= rank(b) ? a : b;
}

/// Asks the shards one after the other, this warp's own first.
inline ORCHARD_FN void request_anywhere(dealings& d) {
    d.elsewhere = failure_reason::none;
    ORCHARD_NO_UNROLL
    for (d.asked = 0; d.asked < d.h.shards; ++d.asked) {
        const std::uint32_t shard = d.home + d.asked;
        request_segments(d, shard < d.h.shards ? shard : shard - d.h.shards);
        if (!may_be_elsewhere(d.why)) {
            return;
        }
        d.elsewhere = telling_more(d.elsewhere, d.why);
    }
    d.why = d.elsewhere;
}

/// Says what was got. All lanes.
inline ORCHARD_NOINLINE void set_result(dealings& d) {
    static_cast<mailbox::grant&>(*d.result) = {d.run, d.leaf, leaf_count{d.leaves}};
    if (is_leader(d.mask)) {
        note_grant(d.h, *d.result);
    }
}

/// What a group asks for.
struct request_of_memory {
    std::uint32_t k;           ///< segments
    std::uint32_t leaves = 0;  ///< and a tail of so many; one of both may be 0
    std::uint64_t bytes = 0;   ///< the lanes' blocks in a chunk, which is counted then; 0: it is for no chunk
};

/// Reads which reclaim was the last one that found nothing. Before an attempt of a group that was refused.
inline ORCHARD_NOINLINE void look_at_reclaims(dealings& d) {
    if (d.result->refused_at != 0) {
        d.vain = reclaim_in_vain::unpack(from_leader(d.mask, d.h.state->vain_reclaim.word.load<order::acquire>()));
    }
}

/// Whether the host has granted segments to the magazine since that reclaim looked there, of which the host knows
/// nothing any more when it refuses. All lanes.
inline ORCHARD_NOINLINE bool has_come_since(dealings& d) {
    // In this order: what is not under way any more has come.
    const bool coming = refill_under_way(d) != 0;
    std::uint64_t come = 0;
    if (is_leader(d.mask)) {
        come = late_grants(d.h);
    }
    const bool came = (from_leader(d.mask, come) & reclaim_in_vain::most_grants) != d.vain.late_grants;
    return coming || came;
}

/// The number of the clearance that begins next. All lanes.
inline ORCHARD_NOINLINE std::uint64_t next_clearance(const heap_view& h, lane_mask mask) {
    // A read-modify-write reads the newest value: an older one would make a clearance that is over look as if it began
    // later. It also releases: the group that begins the next clearance must see all memory that was freed before.
    std::uint64_t begun = 0;
    if (is_leader(mask)) {
        begun = h.state->clearances_begun.word.fetch_add<order::acq_rel>(0);
    }
    begun = from_leader(mask, begun);
    return simt::mutation::is(fault::vain_age) ? begun : begun + 1;
}

/// After a refusal: whether there is nothing to be had. A whole reclaim has found nothing that began after the caller
/// was refused, and the host has refused again since. What was freed meanwhile the caller may miss.
inline ORCHARD_NOINLINE bool is_in_vain(dealings& d) {
    if (d.result->refused_at == 0) {
        d.result->refused_at = next_clearance(d.h, d.mask);
        return false;
    }
    return d.vain.reclaim >= d.result->refused_at && !has_come_since(d);
}

/// Records that the heap is exhausted for requests of this size or more that failed before the last reclaim began.
inline ORCHARD_NOINLINE void prove_shortage(const dealings& d) {
    if (is_leader(d.mask) && is_shortage(d.why) && leaves_wanted(d) <= shortage_proof::most_leaves) {
        const shortage_proof proof{d.vain.reclaim, leaves_wanted(d), d.why};
        d.h.state->shortage[shortage_proof::size_of(proof.leaves)].word.raise<order::release>(proof.pack());
    }
}

/// Returns the reason that is recorded for `leaves` by a reclaim with this number or a later one, or `none`. Segments
/// that the recording group saw come into the magazine are visible to the caller from now on. All lanes.
inline ORCHARD_NOINLINE failure_reason proven_shortage(const heap_view& h, lane_mask mask, std::uint64_t reclaim,
                                                       std::uint64_t leaves) {
    failure_reason why = failure_reason::none;
    const bool any = simt::mutation::is(fault::proof_size);
    const std::uint32_t last = any ? shortage_proof::sizes - 1 : shortage_proof::size_of(leaves);
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = 0; i <= last && why == failure_reason::none; ++i) {
        const auto proof = shortage_proof::unpack(from_leader(mask, h.state->shortage[i].word.load<order::acquire>()));
        why = proof.reclaim >= reclaim && (proof.leaves <= leaves || any) ? proof.why : why;
    }
    return why;
}

/// Returns true if such a record was made since the caller was first refused; `d.elsewhere` is its reason. All lanes.
inline ORCHARD_NOINLINE bool is_proven(dealings& d) {
    if (d.result->refused_at == 0) {
        return false;
    }
    const failure_reason why = proven_shortage(d.h, d.mask, d.result->refused_at, leaves_wanted(d));
    if (why != failure_reason::none) {
        d.elsewhere = why;
    }
    return why != failure_reason::none;
}

/// After a request: keeps the levels.
inline ORCHARD_FN void level_after(dealings& d) {
    level_magazine(d);
    if (d.leaves != 0) {
        hand_back_portions(d, returns_at_once);
    }
}

/// Gets segments with a tail: from the magazine, else from the host, on shortage after giving back what lies unused.
/// All lanes of a converged group; the same result in all. Errors: as `failure_reason`. Cost: two atomics on a magazine
/// hit, two more for a tail; a round trip (3 to 5 us) otherwise.
inline ORCHARD_NOINLINE failure_reason acquire(const heap_view& h, lane_mask mask, const request_of_memory& what,
                                               memory_got* got) {
    constexpr std::uint32_t most_attempts = 6;
    // A run lies in one shard.
    const std::uint32_t whole = what.k + (what.leaves != 0 ? 1 : 0);
    if (whole > h.places || whole > h.segments_per_shard) {
        return failure_reason::too_large;
    }
    if (from_leader(mask, is_closing(h) ? 1u : 0u) != 0) {
        return failure_reason::closing;
    }
    dealings d(h, mask);
    d.k = what.k;
    d.leaves = what.leaves;
    d.bytes = what.bytes;
    d.result = got;
    ORCHARD_NO_UNROLL
    for (;;) {
        // The magazine is looked at once more in any case: what was refused here may have come there.
        d.is_last = d.attempt == most_attempts || is_proven(d);
        if (is_leader(d.mask)) {
            put_late_tails(d.h);
        }
        if (d.h.magazine_target != 0 && take_at_hand(d)) {
            count_chunk(d, 1);
            break;
        }
        if (d.is_last) {
            d.why = d.elsewhere;  // what the host has said last
            break;
        }
        // The host should find in one piece what the magazine has in pieces, or never serves.
        const bool all = d.k > 64 || d.h.magazine_target == 0;
        hand_back_surplus(d, all ? d.h.magazine_target : d.h.magazine_most, returns_at_once + d.k / 32);
        look_at_reclaims(d);
        request_anywhere(d);
        if (!may_be_elsewhere(d.why)) {
            break;
        }
        ++d.attempt;
        if (is_in_vain(d)) {
            prove_shortage(d);
            d.attempt = most_attempts;
        } else if (d.attempt != most_attempts) {
            reclaim(d);
        }
    }
    if (d.why == failure_reason::none) {
        set_result(d);
        level_after(d);
    }
    return d.why;
}

/// Gets a run of `k` segments, as `acquire`.
ORCHARD_INLINE failure_reason acquire_segments(const heap_view& h, lane_mask mask, std::uint32_t k, segment_run* run) {
    memory_got got;
    const failure_reason why = acquire(h, mask, {k}, &got);
    *run = got;
    return why;
}

}  // namespace orchard::device
