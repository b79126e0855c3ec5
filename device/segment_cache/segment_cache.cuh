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
/// Portions are kept by their length: for each length of 1 to 31 leaves, there is such a bitmap with one bit for each
/// leaf of the heap, which says that a portion of that length begins there.
///
/// The atomic on the bitmap word orders the memory's uses: the lane that puts it releases all earlier writes to it, and
/// the lane that takes it acquires them.

#include "device/heap_state.cuh"

namespace orchard::device {

/// One bitmap of the segment cache: that of segments, or that of portions of one length.
struct cache_bitmap {
    device_word<std::uint64_t>* words;  ///< not contiguous for portions; `at(i)` is word i
    device_word<std::uint64_t>* summary;
    device_word<std::uint64_t>* level;
    std::uint32_t count;   ///< number of words
    std::uint32_t leaves;  ///< length of the portions; 0: the bits are segments

    /// Returns word `i`. A line is 16 words; the lines of all 31 lengths for the same segments are adjacent, so that
    /// line i / 16 of one length begins at word i / 16 * 31 * 16 (`heap_view::words_a_line`).
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
/// Returns the level, or 0 if groups that take segments have made it negative for a moment.
ORCHARD_INLINE std::uint32_t not_negative(std::uint64_t level) {
    return static_cast<std::int64_t>(level) > 0 ? static_cast<std::uint32_t>(level) : 0;
}
/// Returns the number of segments or portions in the bitmap; a snapshot.
ORCHARD_INLINE std::uint32_t level_of(const cache_bitmap& s) { return not_negative(s.level->load<order::relaxed>()); }

/// Returns the number of segments in the segment cache; a snapshot.
ORCHARD_INLINE std::uint32_t cache_level(const heap_view& h) { return level_of(segments_cached(h)); }

/// Sets the bit of a portion, and its word's summary bit. Two functions, because each then needs few registers.
inline ORCHARD_NOINLINE void mark_portion(const heap_view& h, std::uint32_t leaf, std::uint32_t leaves) {
    cached_portions(h, leaves).at(leaf / 64).fetch_or<order::release>(std::uint64_t{1} << leaf % 64);
}
inline ORCHARD_NOINLINE void mark_portion_word(const heap_view& h, std::uint32_t word, std::uint32_t leaves) {
    cached_portions(h, leaves).summary[word / 64].fetch_or<order::release>(std::uint64_t{1} << word % 64);
}

/// Returns the weight of a portion in `portion_leaves`. A short portion has the weight of 8 leaves, since it keeps its
/// VA block from being used as a segment just as a long one does.
ORCHARD_INLINE std::uint32_t counted_leaves(std::uint32_t leaves) { return leaves < 8 ? 8 : leaves; }

/// Counts `n` portions of a length that are put into the segment cache or, if `n` is negative, taken from it.
ORCHARD_INLINE void count_portions(const heap_view& h, std::uint32_t leaves, int n) {
    h.state->portion_level[leaves].word.fetch_add<order::relaxed>(static_cast<std::uint64_t>(std::int64_t{n}));
    h.state->portion_leaves.word.fetch_add<order::relaxed>(
        static_cast<std::uint64_t>(std::int64_t{n} * static_cast<int>(counted_leaves(leaves))));
}

/// Counts `n` segments or portions that were taken from the bitmap.
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
/// read the summary of the whole reserved range. Cost: two independent loads.
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
/// memory. One lane calls it alone.
ORCHARD_INLINE void cache_put_bits(const heap_view& h, std::uint32_t word, std::uint64_t bits) {
    h.cache[word].fetch_or<order::release>(bits);
    h.cache_summary[word / 64].fetch_or<order::release>(std::uint64_t{1} << word % 64);
}
/// Puts those segments of a run that lie in its first word, and removes them from the run. One lane calls it alone.
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

/// Takes all bits of one word, in order to return them to the host. One lane calls it alone.
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
