// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A request for segments, and the note that says from which size on the heap is exhausted.
///
///     request_segments: post -> wait             one request; the status becomes a `failure_reason`
///     note_exhaustion                            after a reclaim: {reclaim, leaves, reason} in `heap_state::exhausted`
///     known_exhaustion                           later requests of that size fail without asking

#include "device/segments/segment_request.cuh"

namespace orchard::device {

/// Counts a request that was posted, and its abandonment if there was no response. All lanes of the group call it.
inline ORCHARD_NOINLINE void count_request(const segment_request& d) {
    if (is_leader(d.mask)) {
        d.h.add(counter::host_requests, 1);
        if (d.wait.failure != failure_reason::none) {
            d.h.add(counter::abandoned, 1);
        }
    }
}

/// Counts the chunk that this request is for, with its blocks. `n` is 1, or -1 to undo the count after a failure: it is
/// added modulo 2^64. All lanes of the group call it; requests for other than chunks (`d.bytes` is 0) count nothing.
/// Cost: four atomics whose results are not used.
inline ORCHARD_NOINLINE void count_chunk(segment_request& d, int n) {
    if (is_leader(d.mask) && d.bytes != 0) {
        const auto times = static_cast<std::uint64_t>(std::int64_t{n});
        d.h.add(counter::chunk_allocations, times);
        d.h.add(counter::live_chunks, times);
        d.h.add(counter::allocations, times * static_cast<std::uint64_t>(simt::popcount(d.mask)));
        d.h.add(counter::allocated_bytes, times * d.bytes);
    }
}

/// Posts a request for `d.k` segments and a tail of `d.leaves` leaves, and waits for the response. Sets `d.why`; on
/// success also `d.run` and `d.leaf`, and raises the end of granted segments (`note_grant`); after a rejection sets
/// `d.free`. All lanes of the group call it, converged. The leader has acquired the memory; the caller makes a barrier
/// before other lanes use it.
///
/// Errors: those of `mailbox_client::post` and `wait`, and the reasons of a rejection (`reason_of`). Cost: a round
/// trip; a commit as well if the service parks the request.
inline ORCHARD_FN void request_segments(segment_request& d) {
    d.post.begin({mailbox::request_kind::grant, 0, 0, {segment_index{0}, d.k}, false, d.advice, leaf_count{d.leaves}},
                 false);
    mailbox_client::post(d);
    d.why = d.post.made.failure;
    if (d.why != failure_reason::none) {
        return;
    }
    count_chunk(d, 1);  // done here, it costs no time: the response is under way
    const outcome o = mailbox_client::wait(d);
    d.run = o.result.run;
    d.free = o.result.free_segments();
    d.leaf = o.leaf;
    d.why = o.failure != failure_reason::none ? o.failure : reason_of(o.result.status);
    count_request(d);
    if (d.why != failure_reason::none) {
        count_chunk(d, -1);
    } else if (is_leader(d.mask)) {
        note_grant(d.h, {{d.run.first, d.k}, d.leaf, leaf_count{d.leaves}});
    }
    // From a rejection, or from the deadline of this group: other requests of at least this size would wait in vain as
    // well.
    if (d.why == failure_reason::commit_blocked && is_leader(d.mask)) {
        rejections::note_rejection(*d.box, mailbox::device_part::blocked_from(d.post.request.least_leaves()));
    }
}

/// Returns whether `why` means only that no memory is free now: there may be memory later, or for a smaller request.
ORCHARD_INLINE bool is_shortage(failure_reason why) {
    return why == failure_reason::out_of_memory_device_budget || why == failure_reason::out_of_memory_host_budget ||
           why == failure_reason::out_of_memory_virtual_range || why == failure_reason::fragmented ||
           why == failure_reason::commit_failed;
}

/// Returns the size of the request in leaves. A smaller request would fit into the memory of a greater one.
ORCHARD_INLINE std::uint64_t leaves_wanted(const segment_request& d) {
    return std::uint64_t{d.k} * leaves_per_segment + d.leaves;
}

/// Returns why requests for `leaves` that need no later reclaim than `reclaim` fail; none if the heap is not known to
/// be exhausted for them. One lane calls it alone. Cost: one load.
///
/// Both conditions are needed. A request that needs a later reclaim than the note's failed after that reclaim
/// began: memory freed in between may serve it. A request for fewer leaves may fit where the noted one did not.
inline ORCHARD_NOINLINE failure_reason known_exhaustion(const heap_view& h, std::uint64_t reclaim,
                                                        std::uint64_t leaves) {
    // Acquires (pairs with `note_exhaustion`): with the note, the caller sees what the group that wrote it saw.
    const auto note = exhaustion::unpack(h.state->exhausted.word.load<order::acquire>());
    const bool any_size = simt::mutation::is(fault::exhausted_size);
    return note.reclaim >= reclaim && (note.leaves <= leaves || any_size) ? note.why : failure_reason::none;
}

/// Returns why a segment cannot be got by a group that needs no later reclaim than `reclaim`; none if that is not
/// known, or if the segment cache has segments. One lane calls it alone. Cost: two loads, in flight together.
inline ORCHARD_NOINLINE failure_reason known_lack(const heap_view& h, std::uint64_t reclaim) {
    const auto level = cache_level(h);
    const failure_reason why = known_exhaustion(h, reclaim, leaves_per_segment);
    return level != 0 ? failure_reason::none : why;
}

/// Returns the fewest leaves for which any request would fail as `d` did. If the host had too few free segments for
/// `d`, wherever they lie, that is one segment more than it had free; otherwise it is the size of `d`.
///
/// Example: a request for 10 segments and a tail of 3 leaves (323 leaves) failed, and the host had 4 free segments.
/// Then 5 segments (160 leaves) fail as well. If the reason was `fragmented`, only requests of 323 leaves are known to
/// fail.
ORCHARD_INLINE std::uint64_t leaves_failed(const segment_request& d) {
    const std::uint64_t more_than_free = (std::uint64_t{d.free} + 1) * leaves_per_segment;
    const bool out_of_memory = d.why == failure_reason::out_of_memory_device_budget ||
                               d.why == failure_reason::out_of_memory_host_budget ||
                               d.why == failure_reason::out_of_memory_virtual_range;
    return out_of_memory && more_than_free < leaves_wanted(d) ? more_than_free : leaves_wanted(d);
}

/// Notes that the heap is exhausted for requests of this size or more. All lanes of the group call it, after the
/// reclaim `d.reclaim` and another failure by the host. Cost: one atomic. Sizes above `max_leaves` do not fit the note;
/// such requests ask the host each time.
inline ORCHARD_NOINLINE void note_exhaustion(const segment_request& d) {
    const std::uint64_t leaves = leaves_failed(d);
    if (is_leader(d.mask) && leaves <= exhaustion::max_leaves) {
        // An atomic maximum: a note of a later reclaim, or of fewer leaves, is never replaced by a weaker one. Release:
        // pairs with the acquire in `known_exhaustion`.
        d.h.state->exhausted.word.raise<order::release>(exhaustion{d.reclaim, leaves, d.why}.pack());
    }
}

}  // namespace orchard::device
