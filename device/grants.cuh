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
        refusals::note_refusal(*d.box, mailbox::device_part::blocked_from(d.post.request.least_leaves()));
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

/// What is asked for, in leaves. Where one request is for less than another, it is a part of it.
ORCHARD_INLINE std::uint64_t leaves_wanted(const dealings& d) {
    return std::uint64_t{d.k} * leaves_per_segment + d.leaves;
}

/// Returns why requests for `leaves` are refused that need no later reclaim than this one, or none where that is not
/// known. Any lane, alone.
inline ORCHARD_NOINLINE failure_reason known_exhaustion(const heap_view& h, std::uint64_t reclaim,
                                                        std::uint64_t leaves) {
    // Acquires: with the note, the caller sees what its writer saw.
    const auto note = exhaustion::unpack(h.state->exhausted.word.load<order::acquire>());
    const bool any_size = simt::mutation::is(fault::exhausted_size);
    return note.reclaim >= reclaim && (note.leaves <= leaves || any_size) ? note.why : failure_reason::none;
}

/// Sets `d.why` to the reason for which the request is known to be refused, or to none. All lanes.
inline ORCHARD_NOINLINE void look_at_exhaustion(dealings& d) {
    d.why = failure_reason::none;
    if (!d.noted) {
        return;
    }
    const failure_reason why = known_exhaustion(d.h, d.reclaim, leaves_wanted(d));
    d.why = static_cast<failure_reason>(from_leader(d.mask, static_cast<std::uint32_t>(why)));
}

/// Notes that the heap is exhausted for requests of this size or more.
inline ORCHARD_NOINLINE void note_exhaustion(const dealings& d) {
    if (is_leader(d.mask) && leaves_wanted(d) <= exhaustion::most_leaves) {
        d.h.state->exhausted.word.raise<order::release>(exhaustion{d.reclaim, leaves_wanted(d), d.why}.pack());
    }
}

/// After a request: keeps the levels.
inline ORCHARD_FN void level_after(dealings& d) {
    level_magazine(d);
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
inline ORCHARD_FN acquire_flags look_at_flags(const heap_view& h, lane_mask mask) {
    const std::uint64_t note = h.state->exhausted.word.load<order::relaxed>();
    const std::uint32_t flags = from_leader(mask, (is_closing(h) ? 1u : 0u) | (note != 0 ? 2u : 0u));
    return {(flags & 1) != 0, (flags & 2) != 0};
}

/// Hands back some of what the magazine has too much, and asks the host.
inline ORCHARD_FN void ask_host(dealings& d) {
    // The host should find in one piece what the magazine has in pieces, or never serves.
    const bool all = d.k > 64 || d.h.magazine_target == 0;
    hand_back_surplus(d, all ? d.h.magazine_target : d.h.magazine_most, returns_at_once + d.k / 32);
    request_anywhere(d);
}

/// After a refusal: the host may have granted a refill before, which has the segments. Returns whether the group has
/// them now. All lanes.
inline ORCHARD_FN bool take_refill(dealings& d) {
    d.elsewhere = d.why;
    if (refill_under_way(d) != 0) {
        collect_answers(d);
    }
    if (d.h.magazine_target != 0 && take_at_hand(d)) {
        count_chunk(d, 1);
        return true;
    }
    d.why = d.elsewhere;
    return false;
}

/// Gets segments with a tail: from the magazine, else from the host. Where `what` names a reclaim, that is over. All
/// lanes of a converged group; the same result in all. Errors: as `failure_reason`. Cost: two atomics on a magazine
/// hit, two more for a tail; a round trip (3 to 5 us) otherwise.
inline ORCHARD_NOINLINE failure_reason acquire(const heap_view& h, lane_mask mask, const request_of_memory& what,
                                               mailbox::grant* got) {
    // A run lies in one shard.
    const std::uint32_t whole = what.k + (what.leaves != 0 ? 1 : 0);
    if (whole > h.places || whole > h.segments_per_shard) {
        return failure_reason::too_large;
    }
    const acquire_flags flags = look_at_flags(h, mask);
    if (flags.closing) {
        return failure_reason::closing;
    }
    dealings d(h, mask);
    d.noted = flags.exhausted;
    d.k = what.k;
    d.leaves = what.leaves;
    d.bytes = what.bytes;
    d.reclaim = what.reclaim;
    d.result = got;
    if (is_leader(d.mask)) {
        put_late_tails(d.h);
    }
    if (d.h.magazine_target != 0 && take_at_hand(d)) {
        count_chunk(d, 1);
    } else {
        look_at_exhaustion(d);
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
