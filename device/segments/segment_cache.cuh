// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The segment cache: free segments and portions that wait on the device, so that the common request needs no round
/// trip.
///
/// Segments: a bitmap with one bit for each segment, and a summary with one bit for each word of the bitmap. Taking and
/// putting cost one atomic each, whatever other lanes do at the same time. A summary bit may be 1 for an empty word. A
/// summary bit is 0 for a nonempty word only while a lane is about to set it.
///
///     summary word 0      bit 0        bit 1         bit 2  ...  bit 63       1 = the word may be nonzero
///                         |            |
///     bitmap              word 0       word 1        word 2 ...               1 = the segment is in the segment cache
///                         segments     segments
///                         0 to 63      64 to 127
///
/// Portions are kept by their length: for each length of 1 to 31 leaves, there is such a bitmap with one bit for each
/// leaf of the heap, which says that a portion of that length begins there. A portion of 3 leaves at leaf 5 of segment
/// 7 is bit 37 of word 3 of the bitmap for length 3, since 7 * 32 + 5 = 229 = 3 * 64 + 37.
///
/// The atomic on the bitmap word orders the memory's uses: the lane that puts it releases all earlier writes to it, and
/// the lane that takes it acquires them. Order of the steps:
///
///     put      level += n       OR into the word (release)       OR into the summary (release)
///     take     AND on the word (acquire)       level -= n
///     tidy     AND on the summary       load of the word, and OR into the summary again if it is not 0
///
/// The level is thus never less than the number of segments that can be taken. No nonempty word stays without its
/// summary bit: of a put's OR and a tidying AND on one summary word, one comes first. If the OR does, the AND acquires
/// it, and the load that follows sees the segment. If the AND does, the OR sets the bit afterwards.

#include "device/state/heap_state.cuh"

namespace orchard::device {

/// One bitmap of the segment cache: that of segments, or that of portions of one length.
struct cache_bitmap {
    device_word<std::uint64_t>* words;  ///< not contiguous for portions; `at(i)` is word i
    device_word<std::uint64_t>* summary;
    device_word<std::uint64_t>* level;  ///< number of segments or portions in the bitmap
    std::uint32_t count;                ///< number of words
    std::uint32_t leaves;               ///< length of the portions; 0: the bits are segments

    /// Returns word `i`. A line is 16 words; the lines of all 31 lengths for the same segments are adjacent, so that
    /// line i / 16 of one length begins at word i / 16 * 31 * 16 (`heap_view::words_a_line`).
    ///
    ///     h.portions   | length 1  | length 2  | ... | length 31 | length 1   | length 2   | ...
    ///     words of it    0 to 15     0 to 15           0 to 15     16 to 31     16 to 31
    ///     segments       0 to 31     0 to 31           0 to 31     32 to 63     32 to 63
    ///
    /// Portion bitmaps are thus committed and cleared together with the segments that they describe. Word 20 of length
    /// 3 is word (20 / 16 * 31 + 2) * 16 + 20 % 16 = 532 of `h.portions`.
    [[nodiscard]] ORCHARD_INLINE device_word<std::uint64_t>& at(std::uint32_t i) const {
        constexpr std::uint32_t line = heap_view::words_a_line;
        const std::uint32_t lines = leaves != 0 ? leaves_per_segment - 1 : 1;
        return words[std::uint64_t{i / line} * (lines * line) + i % line];
    }
};
/// Returns the bitmap of segments.
ORCHARD_INLINE cache_bitmap segments_cached(const heap_view& h) {
    return {h.cache, h.cache_summary, &h.state->cache_level.word, h.cache_words(), 0};
}
/// Returns the bitmap of portions of `leaves` leaves.
/// @param leaves  1 to 31
ORCHARD_INLINE cache_bitmap cached_portions(const heap_view& h, std::uint32_t leaves) {
    const std::uint32_t n = h.portion_words();
    return {h.portions + (leaves - 1) * heap_view::words_a_line, h.portion_summary + (leaves - 1) * ((n + 63) / 64),
            &h.state->portion_level[leaves].word, n, leaves};
}
/// Returns the bitmap of portions of `leaves` leaves, or that of segments if `leaves` is 0.
ORCHARD_INLINE cache_bitmap cache_bitmap_of(const heap_view& h, std::uint32_t leaves) {
    return leaves != 0 ? cached_portions(h, leaves) : segments_cached(h);
}
/// Returns the level, or 0 if it is negative. Puts raise a level before the bits appear, and takes lower it afterwards,
/// so that no negative level is expected.
ORCHARD_INLINE std::uint32_t not_negative(std::uint64_t level) {
    return static_cast<std::int64_t>(level) > 0 ? static_cast<std::uint32_t>(level) : 0;
}
/// Returns the number of segments or portions in the bitmap; a snapshot.
ORCHARD_INLINE std::uint32_t level_of(const cache_bitmap& s) { return not_negative(s.level->load<order::relaxed>()); }

/// Returns the number of segments in the segment cache; a snapshot, which may count segments that a lane is about to
/// put, or has just taken.
ORCHARD_INLINE std::uint32_t cache_level(const heap_view& h) { return level_of(segments_cached(h)); }

/// Sets the summary bit of a word: the word may have bits. One lane calls it alone, after it has set bits of the word,
/// or has put back bits that it held while another group may have cleared the summary bit. Cost: an atomic whose result
/// is not used. Its release pairs with the acquire in `unname_words`.
ORCHARD_INLINE void name_word(const cache_bitmap& from, std::uint32_t word) {
    from.summary[word / 64].fetch_or<order::release>(std::uint64_t{1} << word % 64);
}

/// Sets the bit of a portion, and its word's summary bit. Two functions, because each then needs few registers. One
/// lane calls them alone, the bit first: a summary bit that came first could be cleared again before the word is
/// nonzero. The first release pairs with the acquire of the lane that takes the portion (`take_bits`), the second with
/// that of `unname_words`.
inline ORCHARD_NOINLINE void mark_portion(const heap_view& h, std::uint32_t leaf, std::uint32_t leaves) {
    cached_portions(h, leaves).at(leaf / 64).fetch_or<order::release>(std::uint64_t{1} << leaf % 64);
}
inline ORCHARD_NOINLINE void mark_portion_word(const heap_view& h, std::uint32_t word, std::uint32_t leaves) {
    name_word(cached_portions(h, leaves), word);
}

/// Returns the weight of a portion in `portion_leaves`. A short portion has the weight of 8 leaves, since it keeps its
/// VA block from being used as a segment just as a long one does.
ORCHARD_INLINE std::uint32_t counted_leaves(std::uint32_t leaves) { return leaves < 8 ? 8 : leaves; }

/// Counts `n` portions of a length that are put into the segment cache or, if `n` is negative, taken from it. One lane
/// calls it alone. Cost: two atomics whose results are not used. Relaxed: the release and the acquire of the bits order
/// the level, too.
ORCHARD_INLINE void count_portions(const heap_view& h, std::uint32_t leaves, int n) {
    h.state->portion_level[leaves].word.fetch_add<order::relaxed>(static_cast<std::uint64_t>(std::int64_t{n}));
    h.state->portion_leaves.word.fetch_add<order::relaxed>(
        static_cast<std::uint64_t>(std::int64_t{n} * static_cast<int>(counted_leaves(leaves))));
}

/// Counts `n` segments or portions that were taken from the bitmap. One lane calls it alone, after its atomic on the
/// word.
ORCHARD_INLINE void count_taken(const heap_view& h, const cache_bitmap& from, int n) {
    if (from.leaves != 0) {
        count_portions(h, from.leaves, -n);
    } else {
        h.state->cache_level.word.fetch_sub<order::relaxed>(static_cast<std::uint64_t>(n));
    }
}

/// Clears the portion bitmaps of the line in which `leaf` lies, if no lane has done so; waits if another lane is
/// clearing them. One lane calls it alone, before it puts a portion there. Cost: a load; 496 stores for the first
/// portion of 32 segments.
///
///     raw --(compare-and-swap)--> in_work --(496 stores, release)--> cleared        never back
///
/// The bitmaps of all lengths share the line's state, since a portion of any length may come next. Searches need no
/// check: a word's summary bit is set only after its line is cleared, and the atomic that takes a bit decides.
ORCHARD_INLINE void clear_line_of(const heap_view& h, std::uint32_t leaf) {
    if (!h.clears_metadata) {
        return;
    }
    constexpr std::uint32_t words = (leaves_per_segment - 1) * heap_view::words_a_line;
    const std::uint32_t line = leaf / (segments_a_line * leaves_per_segment);
    auto& state = h.cleared_lines[line];
    auto found = state.load<order::acquire>();  // pairs with the release below
    ORCHARD_NO_UNROLL
    while (found != static_cast<std::uint32_t>(line_state::cleared)) {
        if (found == static_cast<std::uint32_t>(line_state::raw) &&
            state.compare_exchange<order::acquire>(found, static_cast<std::uint32_t>(line_state::in_work))) {
            auto* word = h.portions + std::uint64_t{line} * words;
            ORCHARD_NO_UNROLL
            for (std::uint32_t left = words; left != 0; --left) {
                (word++)->store<order::relaxed>(0);
            }
            state.store<order::release>(static_cast<std::uint32_t>(line_state::cleared));
            return;
        }
        simt::pause(200);
        found = state.load<order::acquire>();
    }
}
/// Returns the number of words of a bitmap of the segment cache that may be nonzero. Without this bound, a search would
/// read the summary of the whole reserved range. Cost: two independent loads. `end` counts segments: a word has the
/// bits of 64 segments, or of the 64 leaves of two.
ORCHARD_INLINE std::uint32_t words_in_use(const heap_view& h, const cache_bitmap& from) {
    const std::uint64_t device = h.state->end.device.load<order::relaxed>();
    const std::uint64_t host = h.state->end.host.load<order::relaxed>();
    const auto end = static_cast<std::uint32_t>(device > host ? device : host);
    return from.leaves != 0 ? (end + 1) / 2 : (end + 63) / 64;
}

/// Puts a portion, whose line is cleared (`clear_line_of`), into the segment cache. Releases the caller's writes to the
/// memory. One lane calls it alone. Cost: four atomics whose results are not used.
ORCHARD_INLINE void portion_put(const heap_view& h, std::uint32_t leaf, std::uint32_t leaves) {
    count_portions(h, leaves, 1);
    mark_portion(h, leaf, leaves);
    mark_portion_word(h, leaf / 64, leaves);
}

/// Puts segments of one word into the segment cache, and sets the summary bit. Releases the caller's writes to the
/// memory. One lane calls it alone, for segments that the level counts already. The first release pairs with the
/// acquires in `take_bits`, `take_of_run`, `drain_word` and `take_cached_behind`, the second with that in
/// `unname_words`.
ORCHARD_INLINE void cache_put_bits(const heap_view& h, std::uint32_t word, std::uint64_t bits) {
    h.cache[word].fetch_or<order::release>(bits);
    name_word(segments_cached(h), word);
}
/// Puts those segments of a run that lie in its first word, and removes them from the run. One lane calls it alone. A
/// run of 10 segments from segment 60 on is put as 4 (bits 60 to 63 of word 0) and then 6 (bits 0 to 5 of word 1).
inline ORCHARD_NOINLINE void cache_put_some(const heap_view& h, segment_run& run) {
    const std::uint32_t first = to_underlying(run.first);
    const std::uint32_t room = 64 - first % 64;
    const std::uint32_t n = run.count < room ? run.count : room;
    run = {run.first + n, simt::mutation::is(fault::run_across) ? 0 : run.count - n};
    cache_put_bits(h, first / 64, ~std::uint64_t{0} >> (64 - n) << first % 64);
}

/// Puts a run into the segment cache, and leaves `run` empty. Releases the caller's writes to the memory. One lane
/// calls it alone; it never waits. Cost: two atomics for each 64 segments.
ORCHARD_INLINE void cache_put_all(const heap_view& h, segment_run& run) {
    // The level is raised first: a level below the number of segments present could become negative for long when these
    // are taken.
    h.state->cache_level.word.fetch_add<order::relaxed>(run.count);
    ORCHARD_NO_UNROLL
    while (run.count != 0) {
        cache_put_some(h, run);
    }
}
/// The same with a copy of the run.
ORCHARD_INLINE void cache_put(const heap_view& h, segment_run run) { cache_put_all(h, run); }

/// Clears the summary bits of words that lanes have found or made empty: the lanes with `mine`, each for its `word`.
/// All these words have their bits in the summary word `summary`. All lanes of the group call it; then they need a
/// barrier, and each lane with `mine` calls `name_again`. Cost: two votes, and if a lane has such a word one atomic of
/// the leader.
///
/// The AND acquires: the load of `name_again` then sees a bit that was put before it, so that no nonempty word stays
/// unnamed.
///
///     this lane                            a lane that puts a segment into the word
///     load of the word: 0
///                                          OR into the word
///                                          OR into the summary (release)
///     AND on the summary (acquire)
///     load of the word: not 0, set again
ORCHARD_INLINE void unname_words(const cache_bitmap& from, lane_mask mask, std::uint32_t summary, bool mine,
                                 std::uint32_t word) {
    const std::uint64_t bit = mine ? std::uint64_t{1} << word % 64 : 0;
    const std::uint32_t low = simt::reduce_or(mask, static_cast<std::uint32_t>(bit));
    const std::uint32_t high = simt::reduce_or(mask, static_cast<std::uint32_t>(bit >> 32));
    if ((low | high) != 0 && is_leader(mask)) {
        from.summary[summary].fetch_and<order::acq_rel>(~(std::uint64_t{high} << 32 | low));
    }
}
/// Sets the summary bit of a word whose bit `unname_words` has cleared, if another lane has just filled the word. Each
/// lane calls it for its own word. Cost: a load.
ORCHARD_INLINE void name_again(const cache_bitmap& from, std::uint32_t word) {
    if (from.at(word).load<order::relaxed>() != 0) {
        name_word(from, word);
    }
}

/// Takes all bits of one word, in order to return them to the host. One lane calls it alone. The acquire pairs with the
/// puts; the request that returns the memory releases it to the service. The summary bit stays set.
ORCHARD_INLINE std::uint64_t drain_word(const heap_view& h, const cache_bitmap& from, std::uint32_t word) {
    const std::uint64_t bits = from.at(word).exchange<order::acquire>(0);
    if (bits != 0) {
        count_taken(h, from, simt::popcount(bits));
    }
    return bits;
}
ORCHARD_INLINE std::uint64_t cache_drain_word(const heap_view& h, std::uint32_t word) {
    return drain_word(h, segments_cached(h), word);
}

}  // namespace orchard::device
