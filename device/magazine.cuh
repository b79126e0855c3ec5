// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The magazine: granted segments and portions waiting on the device, so that the common request needs no round trip.
///
/// A bitmap, one bit a segment, and a summary with one bit for each of its words: taking and putting are one atomic
/// each, whoever else does the same. The summary may say 1 for an empty word, and says 0 for a word that holds
/// something only while somebody is about to set it.
///
/// Portions are kept whole, by length: for each of 1 to 31 leaves there is such a bitmap with a bit for each leaf,
/// which says that a portion of that length begins there.

#include "device/heap_state.cuh"
#include "device/random_walk/bits.cuh"

namespace orchard::device {

/// One bitmap of the magazine.
struct stock {
    device_word<std::uint64_t>* words;
    device_word<std::uint64_t>* summary;
    device_word<std::uint64_t>* level;
    std::uint32_t count;   ///< of words
    std::uint32_t leaves;  ///< of a portion; 0: the bits are segments
};
ORCHARD_INLINE stock segments_at_hand(const heap_view& h) {
    return {h.magazine, h.magazine_summary, &h.state->magazine_level.word, h.magazine_words(), 0};
}
/// @param leaves  1 to 31
ORCHARD_INLINE stock portions_at_hand(const heap_view& h, std::uint32_t leaves) {
    const std::uint32_t n = h.portion_words();
    return {h.portions + (leaves - 1) * n, h.portion_summary + (leaves - 1) * ((n + 63) / 64),
            &h.state->portion_level[leaves].word, n, leaves};
}
/// The bitmap of portions of so many leaves; 0: of segments.
ORCHARD_INLINE stock stock_of(const heap_view& h, std::uint32_t leaves) {
    return leaves != 0 ? portions_at_hand(h, leaves) : segments_at_hand(h);
}
/// A count that takers may bring under zero for a moment.
ORCHARD_INLINE std::uint32_t not_negative(std::uint64_t level) {
    return static_cast<std::int64_t>(level) > 0 ? static_cast<std::uint32_t>(level) : 0;
}
/// What is at hand; a snapshot.
ORCHARD_INLINE std::uint32_t level_of(const stock& s) { return not_negative(s.level->load<order::relaxed>()); }

/// Segments at hand; a snapshot.
ORCHARD_INLINE std::uint32_t magazine_level(const heap_view& h) { return level_of(segments_at_hand(h)); }

/// A portion's place in the magazine, in phases that need few registers each.
inline ORCHARD_NOINLINE void mark_portion(const heap_view& h, std::uint32_t leaf, std::uint32_t leaves) {
    portions_at_hand(h, leaves).words[leaf / 64].fetch_or<order::release>(std::uint64_t{1} << leaf % 64);
}
inline ORCHARD_NOINLINE void mark_portion_word(const heap_view& h, std::uint32_t word, std::uint32_t leaves) {
    portions_at_hand(h, leaves).summary[word / 64].fetch_or<order::release>(std::uint64_t{1} << word % 64);
}

/// What a portion counts for in `portion_leaves`: the VA block that a short one keeps from being used otherwise is as
/// long as another's.
ORCHARD_INLINE std::uint32_t counted_leaves(std::uint32_t leaves) { return leaves < 8 ? 8 : leaves; }

/// `n` portions of a length have come to the magazine, or (below 0) have been taken out.
ORCHARD_INLINE void count_portions(const heap_view& h, std::uint32_t leaves, int n) {
    h.state->portion_level[leaves].word.fetch_add<order::relaxed>(static_cast<std::uint64_t>(std::int64_t{n}));
    h.state->portion_leaves.word.fetch_add<order::relaxed>(
        static_cast<std::uint64_t>(std::int64_t{n} * static_cast<int>(counted_leaves(leaves))));
}

/// `n` of what the bitmap has were taken out.
ORCHARD_INLINE void count_taken(const heap_view& h, const stock& from, int n) {
    if (from.leaves != 0) {
        count_portions(h, from.leaves, -n);
    } else {
        h.state->magazine_level.word.fetch_sub<order::relaxed>(static_cast<std::uint64_t>(n));
    }
}

/// Puts a portion into the magazine. Any lane, alone; never waits. Releases what the caller did to the memory. Cost:
/// four atomics, none of which is waited for.
ORCHARD_INLINE void portion_put(const heap_view& h, std::uint32_t leaf, std::uint32_t leaves) {
    count_portions(h, leaves, 1);
    mark_portion(h, leaf, leaves);
    mark_portion_word(h, leaf / 64, leaves);
}

/// Puts segments of one word into the magazine, and says so in the summary. Any lane, alone. Releases what the caller
/// did to the memory.
ORCHARD_INLINE void magazine_put_bits(const heap_view& h, std::uint32_t word, std::uint64_t bits) {
    h.magazine[word].fetch_or<order::release>(bits);
    h.magazine_summary[word / 64].fetch_or<order::release>(std::uint64_t{1} << word % 64);
}
/// Puts as many segments of a run as lie in one word, and takes them off the run. Any lane, alone.
inline ORCHARD_NOINLINE void magazine_put_some(const heap_view& h, segment_run& run) {
    const std::uint32_t first = to_underlying(run.first);
    const std::uint32_t room = 64 - first % 64;
    const std::uint32_t n = run.count < room ? run.count : room;
    run = {run.first + n, run.count - n};
    magazine_put_bits(h, first / 64, ~std::uint64_t{0} >> (64 - n) << first % 64);
}

/// Puts a run into the magazine, and leaves it empty. Any lane, alone; never waits. Releases what the caller did to the
/// memory. Cost: two atomics for each 64 segments.
ORCHARD_INLINE void magazine_put_all(const heap_view& h, segment_run& run) {
    // The level first: it must not be seen below what is there, or a taker could bring it under zero for long.
    h.state->magazine_level.word.fetch_add<order::relaxed>(run.count);
    ORCHARD_NO_UNROLL
    while (run.count != 0) {
        magazine_put_some(h, run);
    }
}
/// The same with a copy.
ORCHARD_INLINE void magazine_put(const heap_view& h, segment_run run) { magazine_put_all(h, run); }

/// One of the set bits, all alike; `bits` must not be 0. In halves, which takes fewer registers.
ORCHARD_INLINE int random_bit(std::uint64_t bits, std::uint32_t random) {
    const auto n = static_cast<std::uint32_t>(simt::popcount(bits));
    int rank = static_cast<int>(std::uint64_t{random} * n >> 32);
    auto half = static_cast<std::uint32_t>(bits);
    const int low = simt::popcount(half);
    const bool upper = rank >= low;
    if (upper) {
        half = static_cast<std::uint32_t>(bits >> 32);
        rank -= low;
    }
    return random_walk::nth_one(half, rank) + (upper ? 32 : 0);
}

/// The lowest run of `k` <= 64 ones in `bits`; 0 where there is none.
ORCHARD_INLINE std::uint64_t run_in_word(std::uint64_t bits, std::uint32_t k) {
    std::uint64_t starts = bits;
    std::uint32_t have = 1;
    while (have < k && starts != 0) {
        const std::uint32_t step = have < k - have ? have : k - have;
        starts &= starts >> step;
        have += step;
    }
    if (starts == 0) {
        return 0;
    }
    const std::uint64_t ones = k == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << k) - 1;
    return ones << simt::lowest_bit(starts);
}

/// The lowest run of ones in `bits`, which must not be 0.
ORCHARD_INLINE std::uint64_t lowest_run(std::uint64_t bits) {
    const std::uint64_t above =
        bits + (bits & (~bits + 1));  // the carry runs to behind it; lost where it ends the word
    return bits & ~above;
}

/// The lowest run of `k` from a random place on, else the lowest of all: those who search a word together should not
/// all want the same. 0 where there is none.
inline ORCHARD_FN std::uint64_t random_run(std::uint64_t bits, std::uint32_t k, std::uint32_t random) {
    const std::uint64_t run = run_in_word(bits & ~std::uint64_t{0} << random % 64, k);
    return run != 0 ? run : run_in_word(bits, k);
}

/// Which bits of a word to take for a run of `k`: a random one where k is 1, the lowest run of whatever length where k
/// is 0. 0 where there is no such run.
inline ORCHARD_FN std::uint64_t wanted_bits(std::uint64_t bits, std::uint32_t k, std::uint32_t random) {
    return k == 1   ? std::uint64_t{1} << random_bit(bits, random)
           : k == 0 ? lowest_run(bits)
                    : random_run(bits, k, random);
}

/// Most words that a search for a run of several looks at. After that the host may know better; and on shortage all
/// that lies here goes back to it.
inline constexpr std::uint32_t most_words_for_a_run = 128;

/// A search of the magazine, in the memory of each lane of the group; `mailbox_client.cuh` says why.
struct magazine_search {
    const heap_view& h;
    stock from;
    lane_mask mask;
    std::uint32_t k;       ///< bits wanted; 0: some, in a run of whatever length
    std::uint32_t random;  ///< the same in all lanes
    std::uint32_t at;      ///< summary words, counted from a random one, that this lane looks at next
    std::uint32_t tried = 0;
    std::uint64_t words = 0;     ///< of the magazine, that this lane's summary word names
    std::uint32_t summary = 0;   ///< which one that is
    lane_mask holders = 0;       ///< lanes that have such words
    int source = 0;              ///< the one whose turn it is
    std::uint32_t word = 0;      ///< that it has chosen
    std::uint32_t attempts = 0;  ///< at that word
    std::uint64_t want = 0;      ///< its bits that are to be taken
    segment_run found;

    ORCHARD_FN magazine_search(const heap_view& heap, lane_mask m, std::uint32_t wanted)
        : h{heap}, from{segments_at_hand(heap)}, mask{m}, k{wanted} {}
};

inline ORCHARD_NOINLINE void choose_portions(magazine_search& s, std::uint32_t leaves) {
    s.from = portions_at_hand(s.h, leaves);
}

/// Begins a search of the bitmap that was chosen. False where it holds less than `least`, or nothing. All lanes.
inline ORCHARD_NOINLINE bool begin_search(magazine_search& s, std::uint32_t least) {
    const std::uint32_t level = from_leader(s.mask, level_of(s.from));
    if (s.k > 64 || level < least || level == 0) {
        return false;
    }
    s.random = mix(static_cast<std::uint32_t>(simt::position().global_warp()) * 64 +
                   static_cast<std::uint32_t>(simt::leader_of(s.mask)));
    s.at = static_cast<std::uint32_t>(simt::rank_in(s.mask));
    return true;
}

/// Each lane looks at another summary word, until one names words of the magazine. False: there are no more.
inline ORCHARD_NOINLINE bool next_summaries(magazine_search& s) {
    const std::uint32_t count = (s.from.count + 63) / 64;
    const auto width = static_cast<std::uint32_t>(simt::popcount(s.mask));
    ORCHARD_NO_UNROLL
    while (s.holders == 0 && from_leader(s.mask, s.at) < count) {
        s.words = 0;
        if (s.at < count) {
            s.summary = s.random % count + s.at;
            s.summary -= s.summary >= count ? count : 0;
            s.words = s.from.summary[s.summary].load<order::relaxed>();
        }
        s.holders = simt::ballot(s.mask, s.words != 0);
        s.at += width;
    }
    return s.holders != 0;
}

/// The lowest lane that has words chooses one of them, a random one.
inline ORCHARD_NOINLINE void choose_word(magazine_search& s) {
    const int source = simt::lowest_bit(s.holders);
    const bool mine = simt::lane_id() == source;
    if (mine) {
        const int bit = random_bit(s.words, s.random);
        s.words &= ~(std::uint64_t{1} << bit);
        s.word = s.summary * 64 + static_cast<std::uint32_t>(bit);
    }
    s.source = source;
    if (simt::ballot(s.mask, mine && s.words != 0) == 0) {
        s.holders &= s.holders - 1;
    }
    ++s.tried;
}

/// What became of an attempt to take a run from a word.
enum class word_outcome : std::uint32_t { none, again, taken };

/// Says in the summary that the word holds something.
inline ORCHARD_NOINLINE void name_word(const magazine_search& s) {
    s.from.summary[s.word / 64].fetch_or<order::release>(std::uint64_t{1} << (s.word % 64));
}

/// Chooses bits of the word `s.word`: `taken` where there are any to be taken. This lane alone.
inline ORCHARD_NOINLINE word_outcome choose_bits(magazine_search& s) {
    auto& w = s.from.words[s.word];
    const std::uint64_t bits = w.load<order::relaxed>();
    if (bits == 0) {
        // Tidy the summary; put it right again if somebody has just filled the word.
        s.from.summary[s.word / 64].fetch_and<order::acq_rel>(~(std::uint64_t{1} << (s.word % 64)));
        if (w.load<order::relaxed>() == 0) {
            return word_outcome::none;
        }
        name_word(s);
        return word_outcome::again;
    }
    s.want = wanted_bits(bits, s.k, mix(s.random + s.attempts));
    return s.want != 0 ? word_outcome::taken : word_outcome::none;
}

/// Puts bits of the word back that were taken in vain.
inline ORCHARD_NOINLINE void untake(const magazine_search& s, std::uint64_t won) {
    if (won != 0) {
        s.from.words[s.word].fetch_or<order::release>(won);
        name_word(s);
    }
}

/// Takes the bits `s.want`. Whether it got them all. This lane alone.
inline ORCHARD_NOINLINE bool take_bits(magazine_search& s) {
    // Acquires what the last owner released with its put.
    const std::uint64_t won = s.from.words[s.word].fetch_and<order::acquire>(~s.want) & s.want;
    if (won != s.want) {
        untake(s, won);
    }
    return won == s.want;
}

/// The run that was taken is `s.found`.
inline ORCHARD_NOINLINE void note_found(magazine_search& s) {
    s.found.count = static_cast<std::uint32_t>(simt::popcount(s.want));
    count_taken(s.h, s.from, static_cast<int>(s.found.count));
    s.found.first = segment_index{s.word * 64 + static_cast<std::uint32_t>(simt::lowest_bit(s.want))};
}

/// One attempt at the word `s.word`, by this lane alone.
ORCHARD_INLINE word_outcome take_from_word(magazine_search& s) {
    const word_outcome chosen = choose_bits(s);
    if (chosen != word_outcome::taken) {
        return chosen;
    }
    if (!take_bits(s)) {
        return word_outcome::again;
    }
    note_found(s);
    return word_outcome::taken;
}

/// What came of the attempt of the lane that has chosen, in all lanes.
/// @param own  what this lane knows of it
inline ORCHARD_NOINLINE word_outcome share_outcome(magazine_search& s, word_outcome own) {
    const auto all = static_cast<word_outcome>(simt::shuffle(s.mask, static_cast<std::uint32_t>(own), s.source));
    if (all == word_outcome::taken) {
        simt::sync(s.mask);  // what the finder acquired is so for all
        s.found.first = segment_index{simt::shuffle(s.mask, to_underlying(s.found.first), s.source)};
        s.found.count = simt::shuffle(s.mask, s.found.count, s.source);
    }
    return all;
}

/// The lane that has chosen makes an attempt; what came of it, in all lanes.
inline ORCHARD_NOINLINE word_outcome try_word(magazine_search& s) {
    return share_outcome(s, simt::lane_id() == s.source ? take_from_word(s) : word_outcome::none);
}

/// Takes a run of `k` bits (0: some run, whatever its length) of the bitmap of portions of `leaves`, or with 0 of
/// segments. Called by all lanes of a converged group, same result in all. What the run's last owner released is
/// acquired for all of them.
/// Runs of more than 64 are not kept here. Cost on a hit: a summary word, a word, one atomic.
inline ORCHARD_FN bool search_stock(const heap_view& h, std::uint32_t leaves, lane_mask mask, std::uint32_t k,
                                    segment_run* taken) {
    constexpr std::uint32_t most_attempts = 8;
    magazine_search s(h, mask, k);
    if (leaves != 0) {
        choose_portions(s, leaves);
    }
    if (!begin_search(s, k)) {
        return false;
    }
    ORCHARD_NO_UNROLL
    while ((s.k <= 1 || s.tried < most_words_for_a_run) && next_summaries(s)) {
        choose_word(s);
        word_outcome result = word_outcome::again;
        ORCHARD_NO_UNROLL
        for (s.attempts = 0; result == word_outcome::again && s.attempts < most_attempts; ++s.attempts) {
            result = try_word(s);
        }
        if (result == word_outcome::taken) {
            *taken = s.found;
            return true;
        }
    }
    return false;
}

/// Takes a run of segments, as `search_stock`.
inline ORCHARD_FN bool search_magazine(const heap_view& h, lane_mask mask, std::uint32_t k, segment_run* taken) {
    return search_stock(h, 0, mask, k, taken);
}

/// The same, as a function of its own.
inline ORCHARD_NOINLINE bool magazine_take(const heap_view& h, lane_mask mask, std::uint32_t k, segment_run* taken) {
    return search_magazine(h, mask, k, taken);
}

/// Takes whatever one word holds; any lane, alone. For handing all back to the host.
ORCHARD_INLINE std::uint64_t drain_word(const heap_view& h, const stock& from, std::uint32_t word) {
    const std::uint64_t bits = from.words[word].exchange<order::acquire>(0);
    if (bits != 0) {
        count_taken(h, from, simt::popcount(bits));
    }
    return bits;
}
ORCHARD_INLINE std::uint64_t magazine_drain_word(const heap_view& h, std::uint32_t word) {
    return drain_word(h, segments_at_hand(h), word);
}

}  // namespace orchard::device
