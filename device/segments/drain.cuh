// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Returns the chunk store and the whole segment cache to the host: first the segments, then the portions of each
/// length, word by word.
///
///     drain
///       spill                     chunk_store.cuh: the chunks go into the segment cache
///       find_bitmaps              of the 32: segments, portions of 1 to 31 leaves
///       begin_drain               for each of these
///         next_drained            the next run of segments, or the next portion
///           skip_empty_words      by the summary
///           drain_words           each lane takes a whole word, by one atomic
///         hand_back               one request to the service
///
/// The group takes words side by side, and posts their contents one request after the other. If no slot is free for a
/// request, its segments or its portion go back into the segment cache (`end_return`); `gather` and `settle` then drain
/// again.

#include "device/segments/chunk_store.cuh"
#include "device/segments/segment_request.cuh"

namespace orchard::device {

/// Moves `d.cursor` to the next words of the bitmap `d.drained` that the summary names; all words below the cursor are
/// done. Returns false at the end. All lanes of the group call it. Cost: a full warp skips 2,048 empty words by one
/// load a lane. A cursor within the 64 words of a summary word that is not 0 stays where it is.
inline ORCHARD_NOINLINE bool skip_empty_words(reclaim_state& d) {
    const cache_bitmap from = cache_bitmap_of(d.h, d.drained);
    const std::uint32_t count = (from.count + 63) / 64;
    ORCHARD_NO_UNROLL
    while (d.cursor < from.count) {
        const std::uint32_t first = d.cursor / 64;
        const std::uint32_t own = first + static_cast<std::uint32_t>(simt::rank_in(d.mask));
        const bool names = own < count && from.summary[own].load<order::relaxed>() != 0;
        const lane_mask have = simt::ballot(d.mask, names);
        const std::uint32_t next = have != 0 ? simt::shuffle(d.mask, own, simt::lowest_bit(have))
                                             : first + static_cast<std::uint32_t>(simt::popcount(d.mask));
        d.cursor = next != first ? next * 64 : d.cursor;
        if (have != 0) {
            return true;
        }
    }
    return false;
}

/// Takes the next words out of the bitmap `d.drained`, one a lane: `d.bits`, nonzero in the lanes `d.holders`. All
/// lanes of the group call it. The lanes stay within the 64 words of one summary word; a full warp needs two calls for
/// these. Cost: two loads and usually at most one atomic of each lane, and one of the leader.
///
/// The words lose their summary bits. Otherwise each of the next searches would look at all these empty words: after a
/// `trim`, searches for a run with a tail took up to 200 us.
inline ORCHARD_NOINLINE void drain_words(reclaim_state& d) {
    const cache_bitmap from = cache_bitmap_of(d.h, d.drained);
    d.own = d.cursor + static_cast<std::uint32_t>(simt::rank_in(d.mask));
    const bool here = d.own / 64 == d.cursor / 64 && d.own < from.count;
    const bool named = here && (from.summary[d.own / 64].load<order::relaxed>() >> d.own % 64 & 1) != 0;
    d.bits = named ? drain_word(d.h, from, d.own) : 0;
    d.holders = simt::ballot(d.mask, d.bits != 0);
    const std::uint32_t end = (d.cursor / 64 + 1) * 64;
    const std::uint32_t behind = d.cursor + static_cast<std::uint32_t>(simt::popcount(d.mask));
    unname_words(from, d.mask, d.cursor / 64, named, d.own);
    if (!simt::mutation::is(fault::return_sync)) {
        simt::sync(d.mask);  // the leader's posts release the memory that each lane acquired with its word
    }
    if (named) {
        name_again(from, d.own);
    }
    d.cursor = behind < end ? behind : end;
}

/// Takes the next run of segments, or portion, out of the bitmap `d.drained`, and stores it in `d.run`. Returns false
/// at the end. All lanes of the group call it. `d.bits` of the lanes `d.holders` are words that are out of the bitmap
/// and wait; `d.left` is the rest of the word in use. A run of segments in one word is returned by one request, each
/// portion by a request of its own.
inline ORCHARD_NOINLINE bool next_drained(reclaim_state& d) {
    ORCHARD_NO_UNROLL
    while (d.left == 0) {
        if (d.holders != 0) {
            const int lane = simt::lowest_bit(d.holders);
            d.holders &= d.holders - 1;
            d.left = simt::shuffle(d.mask, d.bits, lane);
            d.left_word = simt::shuffle(d.mask, d.own, lane);
            continue;
        }
        if (!skip_empty_words(d)) {
            return false;
        }
        drain_words(d);
    }
    const std::uint64_t run = d.drained != 0 ? d.left & (~d.left + 1) : lowest_run(d.left);
    d.left &= ~run;
    d.run = {segment_index{d.left_word * 64 + static_cast<std::uint32_t>(simt::lowest_bit(run))},
             static_cast<std::uint32_t>(simt::popcount(run))};
    name_drained(d);
    return true;
}

/// Sets `d.pending`, the bitmaps to be drained: bit n for portions of n leaves, if their level is not 0; bit 0, for
/// segments, always. All lanes of the group call it. Cost of a full warp: one load, since each lane looks at a length.
inline ORCHARD_NOINLINE void find_bitmaps(reclaim_state& d) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(d.mask));
    d.pending = 1;
    ORCHARD_NO_UNROLL
    for (std::uint32_t first = 1; first < leaves_per_segment; first += width) {
        const std::uint32_t own = first + static_cast<std::uint32_t>(simt::rank_in(d.mask));
        const bool some = own < leaves_per_segment && level_of(cached_portions(d.h, own)) != 0;
        d.pending |= simt::reduce_or(d.mask, some ? 1u << own : 0);
    }
}

/// Begins to drain the next bitmap, `d.drained`. Each lane calls it for itself.
inline ORCHARD_FN void begin_drain(reclaim_state& d) {
    d.drained = static_cast<std::uint32_t>(simt::lowest_bit(d.pending));
    d.pending &= d.pending - 1;
    d.cursor = 0;
    d.left = 0;
    d.holders = 0;
}

/// Returns the whole segment cache to the host. `d.emptied` counts what was taken out, `d.kept` what no slot was free
/// for. All lanes of the group call it. It waits for no response. Segments that other groups put below the cursor
/// meanwhile stay. Cost: reads the summaries; an atomic for each nonempty word; a request for each run and each
/// portion.
inline ORCHARD_FN void drain(reclaim_state& d) {
    // Ends with a barrier: each lane looks at a level, which another lane may have raised just before (`spill`,
    // `put_late_tails`).
    spill(d.h, d.mask);
    find_bitmaps(d);
    ORCHARD_NO_UNROLL
    while (d.pending != 0) {
        begin_drain(d);
        ORCHARD_NO_UNROLL
        while (next_drained(d)) {
            ++d.emptied;
            hand_back(d);
        }
    }
}

/// The same for callers that have no `reclaim_state`: tests. All lanes of a converged group call it.
inline ORCHARD_NOINLINE void drain_cache(const heap_view& h, lane_mask mask) {
    reclaim_state d(h, mask);
    drain(d);
}

}  // namespace orchard::device
