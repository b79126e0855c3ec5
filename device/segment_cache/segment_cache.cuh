// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The segment cache: granted segments and portions waiting on the device, so that the common request needs no round
/// trip.
///
/// A bitmap, one bit a segment, and a summary with one bit for each of its words: taking and putting are one atomic
/// each, also beside other lanes that do the same. The summary may say 1 for an empty word. It says 0 for a word that
/// holds something only while a lane is about to set it.
///
/// Portions are kept whole, by length: for each of 1 to 31 leaves there is such a bitmap with a bit for each leaf,
/// which says that a portion of that length begins there.

#include "device/heap_state.cuh"

namespace orchard::device {

/// One bitmap of the segment cache.
struct cache_bitmap {
    device_word<std::uint64_t>* words;  ///< word i: `at(i)`
    device_word<std::uint64_t>* summary;
    device_word<std::uint64_t>* level;
    std::uint32_t count;   ///< of words
    std::uint32_t leaves;  ///< of a portion; 0: the bits are segments

    [[nodiscard]] ORCHARD_INLINE device_word<std::uint64_t>& at(std::uint32_t i) const {
        constexpr std::uint32_t line = heap_view::words_a_line;
        const std::uint32_t lines = leaves != 0 ? leaves_per_segment - 1 : 1;
        return words[std::uint64_t{i / line} * (lines * line) + i % line];
    }
};
ORCHARD_INLINE cache_bitmap segments_cached(const heap_view& h) {
    return {h.cache, h.cache_summary, &h.state->cache_level.word, h.cache_words(), 0};
}
/// @param leaves  1 to 31
ORCHARD_INLINE cache_bitmap cached_portions(const heap_view& h, std::uint32_t leaves) {
    const std::uint32_t n = h.portion_words();
    return {h.portions + (leaves - 1) * heap_view::words_a_line, h.portion_summary + (leaves - 1) * ((n + 63) / 64),
            &h.state->portion_level[leaves].word, n, leaves};
}
/// The bitmap of portions of so many leaves; 0: of segments.
ORCHARD_INLINE cache_bitmap cache_bitmap_of(const heap_view& h, std::uint32_t leaves) {
    return leaves != 0 ? cached_portions(h, leaves) : segments_cached(h);
}
/// A count that takers may bring under zero for a moment.
ORCHARD_INLINE std::uint32_t not_negative(std::uint64_t level) {
    return static_cast<std::int64_t>(level) > 0 ? static_cast<std::uint32_t>(level) : 0;
}
/// What is at hand; a snapshot.
ORCHARD_INLINE std::uint32_t level_of(const cache_bitmap& s) { return not_negative(s.level->load<order::relaxed>()); }

/// Segments at hand; a snapshot.
ORCHARD_INLINE std::uint32_t cache_level(const heap_view& h) { return level_of(segments_cached(h)); }

/// A portion's place in the segment cache, in phases that need few registers each.
inline ORCHARD_NOINLINE void mark_portion(const heap_view& h, std::uint32_t leaf, std::uint32_t leaves) {
    cached_portions(h, leaves).at(leaf / 64).fetch_or<order::release>(std::uint64_t{1} << leaf % 64);
}
inline ORCHARD_NOINLINE void mark_portion_word(const heap_view& h, std::uint32_t word, std::uint32_t leaves) {
    cached_portions(h, leaves).summary[word / 64].fetch_or<order::release>(std::uint64_t{1} << word % 64);
}

/// What a portion counts for in `portion_leaves`: the VA block that a short one keeps from being used otherwise is as
/// long as another's.
ORCHARD_INLINE std::uint32_t counted_leaves(std::uint32_t leaves) { return leaves < 8 ? 8 : leaves; }

/// `n` portions of a length have come to the segment cache, or (below 0) have been taken out.
ORCHARD_INLINE void count_portions(const heap_view& h, std::uint32_t leaves, int n) {
    h.state->portion_level[leaves].word.fetch_add<order::relaxed>(static_cast<std::uint64_t>(std::int64_t{n}));
    h.state->portion_leaves.word.fetch_add<order::relaxed>(
        static_cast<std::uint64_t>(std::int64_t{n} * static_cast<int>(counted_leaves(leaves))));
}

/// `n` of what the bitmap has were taken out.
ORCHARD_INLINE void count_taken(const heap_view& h, const cache_bitmap& from, int n) {
    if (from.leaves != 0) {
        count_portions(h, from.leaves, -n);
    } else {
        h.state->cache_level.word.fetch_sub<order::relaxed>(static_cast<std::uint64_t>(n));
    }
}

/// Makes sure that the bitmaps of portions are cleared for the line in which `leaf` lies, or waits until the lane that
/// clears them is done. Any lane, alone, before it puts a portion there. Cost: a load; 496 stores for the first portion
/// of 32 segments.
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
/// Returns the words of a bitmap of the segment cache that may hold anything. Without an end a search would read the
/// summary of the whole reserved range. Cost: two loads side by side.
ORCHARD_INLINE std::uint32_t words_in_use(const heap_view& h, const cache_bitmap& from) {
    const std::uint64_t device = h.state->end.device.load<order::relaxed>();
    const std::uint64_t host = h.state->end.host.load<order::relaxed>();
    const auto end = static_cast<std::uint32_t>(device > host ? device : host);
    return from.leaves != 0 ? (end + 1) / 2 : (end + 63) / 64;
}

/// Puts a portion into the segment cache, whose line is cleared (`clear_line_of`). Any lane, alone. Releases what the
/// caller did to the memory. Cost: four atomics that are not waited for.
ORCHARD_INLINE void portion_put(const heap_view& h, std::uint32_t leaf, std::uint32_t leaves) {
    count_portions(h, leaves, 1);
    mark_portion(h, leaf, leaves);
    mark_portion_word(h, leaf / 64, leaves);
}

/// Puts segments of one word into the segment cache, and says so in the summary. Any lane, alone. Releases what the
/// caller did to the memory.
ORCHARD_INLINE void cache_put_bits(const heap_view& h, std::uint32_t word, std::uint64_t bits) {
    h.cache[word].fetch_or<order::release>(bits);
    h.cache_summary[word / 64].fetch_or<order::release>(std::uint64_t{1} << word % 64);
}
/// Puts as many segments of a run as lie in one word, and takes them off the run. Any lane, alone.
inline ORCHARD_NOINLINE void cache_put_some(const heap_view& h, segment_run& run) {
    const std::uint32_t first = to_underlying(run.first);
    const std::uint32_t room = 64 - first % 64;
    const std::uint32_t n = run.count < room ? run.count : room;
    run = {run.first + n, run.count - n};
    cache_put_bits(h, first / 64, ~std::uint64_t{0} >> (64 - n) << first % 64);
}

/// Puts a run into the segment cache, and leaves it empty. Any lane, alone; never waits. Releases what the caller did
/// to the memory. Cost: two atomics for each 64 segments.
ORCHARD_INLINE void cache_put_all(const heap_view& h, segment_run& run) {
    // The level first: it must not be seen below what is there, or a taker could bring it under zero for long.
    h.state->cache_level.word.fetch_add<order::relaxed>(run.count);
    ORCHARD_NO_UNROLL
    while (run.count != 0) {
        cache_put_some(h, run);
    }
}
/// The same with a copy.
ORCHARD_INLINE void cache_put(const heap_view& h, segment_run run) { cache_put_all(h, run); }

/// Takes whatever one word holds; any lane, alone. For handing all back to the host.
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
