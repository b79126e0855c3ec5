// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Chunks of segments with a tail in the magazine. Segments and tail lie there apart, as other requests may have use
/// for either; but tails of one length are few, so that a search for both goes by the tails, and looks whether the
/// segments before one are at hand.

#include "device/magazine.cuh"

namespace orchard::device {

/// Bits of a word of portions: each of its two VA blocks begins with one.
inline constexpr std::uint64_t block_begins = std::uint64_t{1} << leaves_per_segment | 1;

/// A search for segments with a tail; `s.from` are portions of the tail's length, and `s.k` the segments.
struct tail_search : magazine_search {
    std::uint32_t first = 0;  ///< segment of the run that this lane looks at; it lies in two words at most

    using magazine_search::magazine_search;
};

/// The bits of the magazine's word `word` that belong to the run `s.first`.
ORCHARD_INLINE std::uint64_t bits_of_run(const tail_search& s, std::uint32_t word) {
    const std::uint32_t begin = s.first > word * 64 ? s.first - word * 64 : 0;
    const std::uint32_t behind = s.first + s.k - word * 64;
    const std::uint32_t end = behind < 64 ? behind : 64;
    return ~std::uint64_t{0} >> (64 - (end - begin)) << begin;
}
ORCHARD_INLINE std::uint32_t last_word(const tail_search& s) { return (s.first + s.k - 1) / 64; }

/// Whether all segments of the run `s.first` are at hand; a snapshot.
inline ORCHARD_NOINLINE bool run_is_at_hand(const tail_search& s) {
    std::uint64_t missing = 0;
    ORCHARD_NO_UNROLL
    for (std::uint32_t word = s.first / 64; word <= last_word(s); ++word) {
        missing |= bits_of_run(s, word) & ~s.h.magazine[word].load<order::relaxed>();
    }
    return missing == 0;
}

/// Takes the bits of the run that lie in `word`; false, and nothing has changed, where some are not there.
inline ORCHARD_NOINLINE bool take_run_bits(const tail_search& s, std::uint32_t word) {
    const std::uint64_t want = bits_of_run(s, word);
    // Acquires what the last owner released with its put.
    const std::uint64_t won = s.h.magazine[word].fetch_and<order::acquire>(~want) & want;
    if (won != want && won != 0) {
        magazine_put_bits(s.h, word, won);
    }
    return won == want;
}

/// Takes the run `s.first`; false, and nothing has changed, where some of it is not there.
inline ORCHARD_NOINLINE bool take_run(tail_search& s) {
    const std::uint32_t word = s.first / 64;
    if (!take_run_bits(s, word)) {
        return false;
    }
    if (last_word(s) != word && !take_run_bits(s, word + 1)) {
        magazine_put_bits(s.h, word, bits_of_run(s, word));
        return false;
    }
    s.h.state->magazine_level.word.fetch_sub<order::relaxed>(s.k);
    return true;
}

/// Takes the tail behind the run `s.first`. Whether it was there.
inline ORCHARD_NOINLINE bool take_tail(const tail_search& s) {
    const std::uint32_t leaf = (s.first + s.k) * leaves_per_segment;
    const std::uint64_t bit = std::uint64_t{1} << leaf % 64;
    if ((s.from.words[leaf / 64].fetch_and<order::acquire>(~bit) & bit) == 0) {
        return false;
    }
    count_portions(s.h, s.from.leaves, -1);
    return true;
}

/// Chooses one of the tails of word `s.word` that have a run before them: `s.first`. This lane alone.
inline ORCHARD_NOINLINE word_outcome choose_tail(tail_search& s) {
    if (s.from.words[s.word].load<order::relaxed>() == 0) {
        return choose_bits(s);  // tidies the summary
    }
    const std::uint64_t bits = s.from.words[s.word].load<order::relaxed>() & block_begins;
    if (bits == 0) {
        return word_outcome::none;
    }
    const bool second = bits == block_begins ? (mix(s.random + s.attempts) & 1) != 0 : (bits & 1) == 0;
    const std::uint32_t behind = s.word * 2 + (second ? 1 : 0);
    if (behind < s.k) {
        return word_outcome::none;
    }
    s.first = behind - s.k;
    return run_is_at_hand(s) ? word_outcome::taken : word_outcome::none;
}

/// One attempt at the word `s.word`, by this lane alone.
inline ORCHARD_NOINLINE word_outcome take_with_tail(tail_search& s) {
    const word_outcome chosen = choose_tail(s);
    if (chosen != word_outcome::taken) {
        return chosen;
    }
    if (!take_tail(s)) {
        return word_outcome::again;
    }
    if (!take_run(s)) {
        portion_put(s.h, (s.first + s.k) * leaves_per_segment, s.from.leaves);
        return word_outcome::again;
    }
    s.found = {segment_index{s.first}, s.k};
    return word_outcome::taken;
}

/// The lane that has chosen a word makes an attempt; what came of it, in all lanes.
inline ORCHARD_NOINLINE word_outcome try_tails(tail_search& s) {
    return share_outcome(s, simt::lane_id() == s.source ? take_with_tail(s) : word_outcome::none);
}

/// Takes a run of `k` segments and the portion of `leaves` behind it. Called by all lanes of a converged group, same
/// result in all. What their last owners released is acquired for all of them.
/// Cost on a hit: a summary word, a word, one or two words of segments, and an atomic for the tail and for each of
/// those.
inline ORCHARD_FN bool search_with_tail(const heap_view& h, lane_mask mask, std::uint32_t k, std::uint32_t leaves,
                                        segment_run* taken) {
    constexpr std::uint32_t most_attempts = 4;
    tail_search s(h, mask, k);
    if (from_leader(mask, magazine_level(h)) < k) {
        return false;
    }
    choose_portions(s, leaves);
    if (!begin_search(s, 1)) {
        return false;
    }
    ORCHARD_NO_UNROLL
    while (s.tried < most_words_for_a_run && next_summaries(s)) {
        choose_word(s);
        word_outcome result = word_outcome::again;
        ORCHARD_NO_UNROLL
        for (s.attempts = 0; result == word_outcome::again && s.attempts < most_attempts; ++s.attempts) {
            result = try_tails(s);
        }
        if (result == word_outcome::taken) {
            *taken = s.found;
            return true;
        }
    }
    return false;
}

}  // namespace orchard::device
