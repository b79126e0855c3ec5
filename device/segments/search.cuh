// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Taking segments and portions from the segment cache. The lanes of a group search side by side: each reads summary
/// words, and then one of the words that a summary word names. One lane that saw a fitting piece takes it. If another
/// group took it first, the atomic says so, and the next lane tries. So the last run of a nearly empty segment cache is
/// found in as few steps as the first run of a full one.
///
/// A chunk of segments with a tail is not kept as one piece: its segments and its portion are kept separately, since
/// other requests may need either. Few tails have the right length. The search therefore starts from tails, and checks
/// whether the segments before one are in the segment cache.
///
///     search_cache
///       begin_search                 is there enough at all? where to begin
///       next_summary                 the next summary word with a bit; reads two more a lane if none is left
///         next_words                 one of the words that it names for each lane
///           find_candidates          each lane reads its word (with a tail: also the segments before it)
///             try_candidate          one lane after the other: `take`, by atomics
///           tidy_summary             words that were empty lose their summary bits
///
/// Random choices keep groups apart that search at the same time: the summary word at which a search begins, the order
/// of the words in it, the run that a lane wants of its word, and the lane that takes.

#include "device/group/bits.cuh"
#include "device/segments/segment_cache.cuh"

namespace orchard::device {

/// Returns a run of `k` ones in `bits` as a mask, chosen by `random` among all that there are; 0 if there is none. The
/// randomness makes lanes that read the same word want different runs.
/// @param k  1 to 64
inline ORCHARD_FN std::uint64_t random_run(std::uint64_t bits, std::uint32_t k, std::uint32_t random) {
    const std::uint64_t starts = run_starts(bits, k);
    return starts == 0 ? 0 : ones<std::uint64_t>(k) << random_one(starts, random);
}

/// Returns the lowest run of ones in `bits`, which must not be 0: 11010110 gives 00000110. In the sum 11011000, the
/// carry has cleared the run and set the bit behind it, so that `bits & ~above` is the run alone.
ORCHARD_INLINE std::uint64_t lowest_run(std::uint64_t bits) {
    const std::uint64_t above =
        bits + (bits & (~bits + 1));  // the carry sets the bit after the run; lost if the run ends the word
    return bits & ~above;
}

/// Returns the bits of a word to take for a run of `k` ones: a run at a random place, or the lowest run of any length
/// if `k` is 0. Returns 0 if there is no such run.
inline ORCHARD_FN std::uint64_t wanted_bits(std::uint64_t bits, std::uint32_t k, std::uint32_t random) {
    return k == 0 ? lowest_run(bits) : random_run(bits, k, random);
}

/// The bits of a word of portions that are the first leaves of its two VA blocks.
inline constexpr std::uint64_t block_begins = std::uint64_t{1} << leaves_per_segment | 1;

/// The most words that a search for a run of several segments reads. Then the group asks the host, which may find a run
/// faster: its OR-tree also joins runs across words. On shortage everything in the segment cache goes back to the host
/// anyway. A search for a single segment has no such limit, since each nonempty word has one.
inline constexpr std::uint32_t max_words_for_a_run = 1024;

/// The state of a search, kept in each lane's local memory; host_rpc/client.cuh says why.
struct cache_search {
    /// Summary words that each lane reads side by side.
    static constexpr std::uint32_t depth = 2;

    const heap_view& h;
    cache_bitmap from;  ///< the bitmap searched; with a tail, that of portions of `tail` leaves
    lane_mask mask;
    std::uint32_t k;          ///< length of the run wanted; 0: a run of any length
    std::uint32_t tail;       ///< leaves of a portion that must begin right after the run; 0: none
    std::uint32_t level = 0;  ///< number of segments in the segment cache when the search began
    std::uint32_t random;     ///< a random number, the same in all lanes
    std::uint32_t tried = 0;  ///< words read so far
    // Summary words, numbered from `start` on.
    std::uint32_t start = 0;      ///< the summary word at which this search begins
    std::uint32_t at = 0;         ///< number of summary words read so far by all lanes
    std::uint64_t read[depth]{};  ///< the summary words that this lane has read
    std::uint32_t turn = depth;   ///< the position in `read` that is being looked at
    lane_mask holders = 0;        ///< lanes whose summary word at `turn` names words that are not done
    // The words that one summary word names; the same in all lanes.
    std::uint64_t named = 0;        ///< names of words still to be read, rotated right by `random`
    std::uint32_t named_first = 0;  ///< the first of the 64 words
    // The word that this lane looks at.
    std::uint32_t word = 0;   ///< its index in the bitmap
    bool has_word = false;    ///< the lane looks at a word
    bool is_empty = false;    ///< the word was 0
    std::uint64_t want = 0;   ///< bits of the word that the lane would take; 0: the word has no fitting piece
    std::uint64_t tails = 0;  ///< tails in the word whose preceding segments have not been checked yet
    std::uint32_t first = 0;  ///< first segment of the run before the tail; the run lies in two words at most
    // The lane that takes.
    lane_mask candidates = 0;    ///< lanes that saw a fitting piece
    int source = 0;              ///< the one of them that tries to take its piece
    bool taken = false;          ///< this lane took the piece
    std::uint32_t attempts = 0;  ///< attempts to take a piece of the words that the lanes look at
    segment_run found;           ///< the result; for a portion: its leaf, and 1

    ORCHARD_FN cache_search(const heap_view& heap, lane_mask m, std::uint32_t wanted, std::uint32_t wanted_tail)
        : h{heap}, from{segments_cached(heap)}, mask{m}, k{wanted}, tail{wanted_tail} {}
    /// Returns the number of summary words.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t summaries() const { return (from.count + 63) / 64; }
};

/// Chooses the bitmap of portions of `leaves` leaves.
inline ORCHARD_NOINLINE void choose_portions(cache_search& s, std::uint32_t leaves) {
    s.from = cached_portions(s.h, leaves);
}

/// Begins a search of the chosen bitmap. Returns false if the segment cache holds too little, or if the run would not
/// fit into a word. All lanes of the group call it. Sets `s.level`. Cost: three loads, or four for portions, in flight
/// together, and three shuffles.
inline ORCHARD_NOINLINE bool begin_search(cache_search& s) {
    const std::uint32_t segments = cache_level(s.h);
    std::uint32_t pieces = s.from.leaves != 0 ? level_of(s.from) : segments;
    const std::uint32_t words = words_in_use(s.h, s.from);
    pieces = from_leader(s.mask, pieces);
    s.level = from_leader(s.mask, segments);
    s.from.count = from_leader(s.mask, words);
    s.random = mix(static_cast<std::uint32_t>(simt::position().global_warp()) * 64 +
                   static_cast<std::uint32_t>(simt::leader_of(s.mask)));
    s.start = s.from.count != 0 ? s.random % s.summaries() : 0;
    return s.k <= 64 && pieces != 0 && (s.tail == 0 ? pieces : s.level) >= s.k && s.from.count != 0;
}

/// Returns the number of the summary word that is `i` words after `start`, cyclically; `i` is less than the number of
/// summary words.
ORCHARD_INLINE std::uint32_t summary_at(const cache_search& s, std::uint32_t i) {
    const std::uint32_t index = s.start + i;
    return index < s.summaries() ? index : index - s.summaries();
}

/// Reads `depth` more summary words in each lane: `s.read`. All lanes of the group call it. Cost: two loads a lane, in
/// flight together. Relaxed: a summary bit is a hint.
///
///     4 lanes, `s.at` = 0      lane     0   1   2   3
///                              read[0]  0   1   2   3        summary words, counted from `s.start`
///                              read[1]  4   5   6   7        afterwards `s.at` = 8
inline ORCHARD_NOINLINE void read_summaries(cache_search& s) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(s.mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(s.mask));
    std::uint64_t read[cache_search::depth];
    ORCHARD_UNROLL
    for (std::uint32_t j = 0; j < cache_search::depth; ++j) {
        const std::uint32_t i = s.at + j * width + rank;
        read[j] = i < s.summaries() ? s.from.summary[summary_at(s, i)].load<order::relaxed>() : 0;
    }
    ORCHARD_UNROLL
    for (std::uint32_t j = 0; j < cache_search::depth; ++j) {
        s.read[j] = read[j];
    }
    s.at += cache_search::depth * width;
}

/// Goes on to the next summary word that names words: `s.named`. Returns false if there is none. All lanes of the group
/// call it. Cost: no load if such a word has been read already; otherwise `read_summaries` once for each 2 * 32 summary
/// words (a full warp). A summary word stands for 4,096 segments, or for the leaves of 128.
inline ORCHARD_NOINLINE bool next_summary(cache_search& s) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(s.mask));
    ORCHARD_NO_UNROLL
    while (s.holders == 0) {
        if (++s.turn >= cache_search::depth) {
            if (s.at >= s.summaries()) {
                return false;
            }
            read_summaries(s);
            s.turn = 0;
        }
        s.holders = simt::ballot(s.mask, s.read[s.turn] != 0);
    }
    const int lane = simt::lowest_bit(s.holders);
    s.holders &= s.holders - 1;
    // The number of the word that this lane has read at `turn`: `s.at` has moved on by all words read together.
    const auto rank = static_cast<std::uint32_t>(simt::popcount(s.mask & ((lane_mask{1} << lane) - 1)));
    s.named_first = summary_at(s, s.at - (cache_search::depth - s.turn) * width + rank) * 64;
    // Rotated, so that groups that read the same summary word begin with different words.
    const std::uint64_t named = simt::shuffle(s.mask, s.read[s.turn], lane);
    s.named = named >> s.random % 64 | named << (64 - s.random % 64) % 64;
    return true;
}

/// Assigns one of the named words to each lane. Returns false if none is left. All lanes of the group call it. The lane
/// of rank r gets the r-th name; names beyond the group's width stay in `s.named` for the next call.
inline ORCHARD_NOINLINE bool next_words(cache_search& s) {
    if (s.named == 0) {
        return false;
    }
    const int count = simt::popcount(s.named);
    const int width = simt::popcount(s.mask);
    const int rank = simt::rank_in(s.mask);
    s.has_word = rank < count;
    const int bit = s.has_word ? nth_one(s.named, rank) : 0;
    s.word = s.named_first + (static_cast<std::uint32_t>(bit) + s.random) % 64;
    if (count > width) {
        const int last = simt::shuffle(s.mask, bit, simt::highest_bit(s.mask));
        s.named &= ~(~std::uint64_t{0} >> (63 - last));
    } else {
        s.named = 0;
    }
    s.tried += static_cast<std::uint32_t>(count < width ? count : width);
    s.attempts = 0;
    return true;
}

/// Returns the bits of the run at `s.first` in the word in which it begins (`i` = 0) or in the next word (`i` = 1). A
/// run of at most 64 segments lies in no third word. For 10 segments from 60 on: bits 60 to 63, and bits 0 to 5.
ORCHARD_INLINE std::uint64_t bits_of_run(const cache_search& s, std::uint32_t i) {
    const std::uint32_t begin = s.first % 64;
    const std::uint64_t whole = ones<std::uint64_t>(s.k);
    return i == 0 ? whole << begin : begin == 0 ? 0 : whole >> (64 - begin);
}

/// Reads this lane's word: sets `s.want` to a fitting piece or, with a tail, `s.tails` to the tails to be checked. A
/// tail behind segments begins at leaf 0 of a VA block, so that only two bits of a word can be such tails. Relaxed:
/// `take` acquires.
inline ORCHARD_NOINLINE void look_at_word(cache_search& s) {
    const std::uint64_t bits = s.has_word ? s.from.at(s.word).load<order::relaxed>() : 0;
    s.is_empty = bits == 0;
    if (s.tail != 0) {
        s.tails = bits & block_begins;
        s.want = 0;
    } else {
        s.want = bits != 0 ? wanted_bits(bits, s.k, mix(s.random + s.attempts)) : 0;
    }
}

/// Checks one of `s.tails`: if the segments before it are in the segment cache, sets `s.want` to the tail and `s.first`
/// to the run. Called twice, since a word may have two tails. Cost: one or two loads. For k = 3 and a tail at bit 32 of
/// word 5, which lies in segment 2 * 5 + 1 = 11, segments 8 to 10 are needed.
inline ORCHARD_NOINLINE void look_before_tail(cache_search& s) {
    if (s.tails == 0 || s.want != 0) {
        return;
    }
    const std::uint64_t lower = s.tails & 1;
    const std::uint64_t tail = lower != 0 && (s.tails == lower || (s.random & 1) != 0) ? lower : s.tails & ~lower;
    s.tails &= ~tail;
    const std::uint32_t behind = s.word * 2 + (tail == 1 ? 0 : 1);
    if (behind < s.k) {
        return;
    }
    s.first = behind - s.k;
    std::uint64_t missing = bits_of_run(s, 0) & ~s.h.cache[s.first / 64].load<order::relaxed>();
    if (const std::uint64_t rest = bits_of_run(s, 1); rest != 0) {
        missing |= rest & ~s.h.cache[s.first / 64 + 1].load<order::relaxed>();
    }
    s.want = missing == 0 ? tail : 0;
}

/// Takes the bits `s.want` of the word. Returns true if it got all of them; otherwise it puts back what it got. If a
/// single segment was gone, it tries another bit of the value that the atomic returned. One lane calls it alone. Cost:
/// one atomic; up to six for a single segment.
inline ORCHARD_NOINLINE bool take_bits(cache_search& s) {
    constexpr std::uint32_t max_attempts = 6;
    auto& w = s.from.at(s.word);
    ORCHARD_NO_UNROLL
    for (std::uint32_t attempt = 1; attempt <= max_attempts && s.want != 0; ++attempt) {
        // Acquires what the last owner released (`cache_put_bits`, `mark_portion`).
        const std::uint64_t old = w.fetch_and<order::acquire>(~s.want);
        const std::uint64_t won = old & s.want;
        if (won == s.want) {
            return true;
        }
        // The level was not lowered yet, so that it need not be raised.
        if (won != 0) {
            w.fetch_or<order::release>(won);
            name_word(s.from, s.word);
        }
        const bool any_will_do = s.k == 1 && s.tail == 0;
        s.want = any_will_do ? random_run(old, 1, mix(s.random ^ attempt << 16)) : 0;
    }
    return false;
}

/// Takes the segments of the run at `s.first` that lie in one word, the first (`i` = 0) or the second. Returns false if
/// some are missing; it then puts back the others. One lane calls it alone. Cost: one atomic.
inline ORCHARD_NOINLINE bool take_of_run(const cache_search& s, std::uint32_t i) {
    const std::uint64_t all = bits_of_run(s, i);
    if (all == 0) {
        return true;
    }
    const std::uint32_t word = s.first / 64 + i;
    const std::uint64_t won = s.h.cache[word].fetch_and<order::acquire>(~all) & all;
    if (won != all && won != 0) {
        cache_put_bits(s.h, word, won);
    }
    return won == all;
}

/// Puts back a tail whose run was not complete and, if `segments`, also the segments of the run's first word. The
/// segments come first, as in `put_pieces`.
inline ORCHARD_NOINLINE void untake(const cache_search& s, bool segments) {
    if (segments) {
        cache_put_bits(s.h, s.first / 64, bits_of_run(s, 0));
    }
    s.from.at(s.word).fetch_or<order::release>(s.want);
    name_word(s.from, s.word);
}

/// Counts the piece taken, and stores it in `s.found`; with a tail, the run of segments, at whose end the tail begins.
inline ORCHARD_NOINLINE void note_found(cache_search& s) {
    const auto bits = static_cast<std::uint32_t>(simt::popcount(s.want));
    count_taken(s.h, s.from, static_cast<int>(bits));
    s.found = {segment_index{s.word * 64 + static_cast<std::uint32_t>(simt::lowest_bit(s.want))}, bits};
    if (s.tail != 0) {
        count_taken(s.h, segments_cached(s.h), static_cast<int>(s.k));
        s.found = {segment_index{s.first}, s.k};
    }
}

/// Takes the piece that this lane saw. Returns false, and takes nothing, if another group took it first. One lane calls
/// it alone. Cost: one atomic; with a tail two or three. Two groups that each hold a part of the other's piece both put
/// theirs back; neither waits for the other.
ORCHARD_INLINE bool take(cache_search& s) {
    if (!take_bits(s)) {
        return false;
    }
    if (s.tail != 0) {
        const bool begun = take_of_run(s, 0);
        if (!begun || !take_of_run(s, 1)) {
            untake(s, begun);
            return false;
        }
    }
    note_found(s);
    return true;
}

/// Chooses one of the lanes that saw a fitting piece, at random: `s.source`. All lanes of the group call it.
inline ORCHARD_NOINLINE void choose_candidate(cache_search& s) {
    s.source = random_one(s.candidates, mix(s.random + s.attempts));
    ++s.attempts;
}

/// Copies what the chosen lane has found to all lanes. All lanes of the group call it.
inline ORCHARD_NOINLINE void share_found(cache_search& s) {
    simt::sync(s.mask);  // the chosen lane's acquire holds for all lanes
    s.found.first = segment_index{simt::shuffle(s.mask, to_underlying(s.found.first), s.source)};
    s.found.count = simt::shuffle(s.mask, s.found.count, s.source);
}

/// Finds the lanes that see a fitting piece: `s.candidates`. All lanes of the group call it.
ORCHARD_INLINE void find_candidates(cache_search& s) {
    look_at_word(s);
    if (s.tail != 0) {
        look_before_tail(s);
        look_before_tail(s);
    }
    s.candidates = simt::ballot(s.mask, s.want != 0);
}

/// Lets one of the candidates take its piece, and returns whether it did. If it did not, all lanes read again, since
/// other groups are probably taking from the same words. All lanes of the group call it. `search_cache` limits the
/// attempts at one set of words to 64.
ORCHARD_INLINE bool try_candidate(cache_search& s) {
    choose_candidate(s);
    s.taken = simt::lane_id() == s.source && take(s);
    if (simt::ballot(s.mask, s.taken) != 0) {
        share_found(s);
        return true;
    }
    find_candidates(s);
    return false;
}

/// Clears the summary bits of words that lanes have found empty (`unname_words`). All lanes of the group call it. All
/// words of the lanes have their summary bits in one summary word.
inline ORCHARD_NOINLINE void tidy_summary(const cache_search& s) {
    const bool mine = s.has_word && s.is_empty;
    if (simt::ballot(s.mask, mine) == 0) {
        return;
    }
    unname_words(s.from, s.mask, s.named_first / 64, mine, s.word);
    simt::sync(s.mask);
    if (mine) {
        name_again(s.from, s.word);
    }
}

/// Takes a piece from the segment cache, and returns whether it found one. The piece is a run of `k` segments (`k` = 0:
/// of any length), a portion of `leaves` leaves if `leaves` is not 0, or, with `tail`, a run of `k` segments and the
/// portion of `tail` leaves right after it. All lanes of a converged group call it; the result is the same in all. The
/// release of the last owner is acquired for all lanes. Runs of more than 64 segments are never found here. It never
/// waits. Cost if found: the levels and the end at once, a summary word, a word, one atomic; with a tail two or three
/// atomics. Cost if the segment cache is empty: the levels and the end.
///
/// The result is `s.found`, the run of segments; for a portion (`leaves` != 0), the run begins at its leaf, counted
/// from the heap's first leaf.
inline ORCHARD_FN bool search_cache(cache_search& s, std::uint32_t leaves) {
    if (leaves + s.tail != 0) {
        choose_portions(s, leaves + s.tail);
    }
    if (!begin_search(s)) {
        return false;
    }
    ORCHARD_NO_UNROLL
    while (next_summary(s)) {
        ORCHARD_NO_UNROLL
        while ((s.k <= 1 || s.tried < max_words_for_a_run) && next_words(s)) {
            find_candidates(s);
            ORCHARD_NO_UNROLL
            while (s.candidates != 0 && s.attempts < 2 * simt::warp_size) {
                if (try_candidate(s)) {
                    return true;
                }
            }
            tidy_summary(s);
        }
    }
    return false;
}

/// Takes a run of `k` segments, as `search_cache` above: 1 to 64, or 0 for a run of any length. `*taken` is unchanged
/// if there is none.
inline ORCHARD_NOINLINE bool cache_take(const heap_view& h, lane_mask mask, std::uint32_t k, segment_run* taken) {
    cache_search s(h, mask, k, 0);
    if (!search_cache(s, 0)) {
        return false;
    }
    *taken = s.found;
    return true;
}

}  // namespace orchard::device
