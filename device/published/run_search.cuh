// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The search for runs of free pages in consecutive bitmap words. A group reads a word a lane, finds runs at any bit
/// and across any number of words, and claims a run as a whole or not at all. It serves lines 6 to 22 of the paper's
/// Algorithm 3.
///
///     lane        0                1                2              3
///     word    |##..#...........|................|.....###..#####|...#....########|
///                   '---------- a run that ends in lane 2 ----'
///     below     0                11               11 + 16         0              free pages right below the word
///
///     search_run      W words at a time; the run at their end is carried over to the next W
///       free_below    two collectives: how many free pages lie right below each lane's word
///       run_ending_in each lane: does a run of n pages end in my word?
///       claim_run     the group: the run that the lowest such lane found, then the next one

#include "device/published/claim.cuh"

namespace orchard::device::random_walk {

/// The result of a search, the same in all lanes of the group.
struct search_result {
    page_number first = no_page;  ///< first page of the run, which is claimed
    bool lost = false;            ///< a run was seen, but another group claimed pages of it first
    std::uint32_t longest = 0;    ///< length of the longest run seen, if `measure` was set
};

/// Returns the bits in word `k` of the run of `n` pages that begins at bit `first` of word 0; `k` is less than
/// `run_words`. With 64-bit words, 70 pages from bit 60 on are bits 60 to 63 of word 0, all 64 of word 1, and bits 0
/// and 1 of word 2.
template <class Word>
ORCHARD_INLINE Word run_bits(std::uint32_t first, std::uint32_t n, std::uint32_t k) {
    constexpr std::uint32_t width = width_of<Word>;
    const std::uint32_t from = k == 0 ? first : 0;
    const std::uint32_t before = k == 0 ? 0 : k * width - first;  // pages of the run in words below
    const std::uint32_t left = n - before;
    return ones<Word>(left < width - from ? left : width - from, from);
}

/// Returns the number of words in which a run of `n` pages from bit `first` on lies: (60 + 70 + 63) / 64 = 3 for the
/// run above.
template <class Word>
ORCHARD_INLINE std::uint32_t run_words(std::uint32_t first, std::uint32_t n) {
    return (first + n + width_of<Word> - 1) / width_of<Word>;
}

/// Claims `n` pages from `first` on and returns true, or changes nothing and returns false. All lanes of a converged
/// group call it with the same arguments. Cost: one atomic for each word, divided among the lanes of the group, and as
/// many again if the claim fails; a ballot for each W words, and a barrier.
///
/// A run of several words cannot be claimed by one atomic. Each lane claims its word; if a lane does not get all of its
/// bits, all lanes give back what they got. In between, other groups miss these pages. Two groups may thus stop each
/// other; both report the run as lost, and search again.
template <run_space Space>
ORCHARD_FN bool claim_run(const Space& s, lane_mask mask, page_number first, std::uint32_t n) {
    using word = typename Space::word;
    const page_place at = place_of<word>(first);
    const std::uint32_t words = run_words<word>(at.bit, n);
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    std::uint32_t mine = 0;  // words that this lane has claimed: the first of those it tried
    bool all = true;
    for (std::uint32_t i = 0; i < words && all; i += width) {
        const std::uint32_t k = i + rank;
        bool won_all = true;
        if (k < words) {
            const word bits = run_bits<word>(at.bit, n, k);
            const word won = claim(s, at.word + k, bits);
            won_all = won == bits;
            if (won_all) {
                ++mine;
            } else if (won != 0) {
                give_up(s, at.word + k, won);
            }
        }
        all = simt::ballot(mask, won_all) == mask;
    }
    for (std::uint32_t i = 0; i < mine && !all; ++i) {
        const std::uint32_t k = i * width + rank;
        give_up(s, at.word + k, run_bits<word>(at.bit, n, k));
    }
    simt::sync(mask);  // what one lane acquired with its word holds for all lanes
    return all;
}

/// Returns the number of free pages right below this lane's word. They lie in the words of lower lanes, and in `carry`:
/// the free pages right below the lowest lane's word. All lanes of a converged group call it.
/// @param top     free pages at the upper end of this lane's word
/// @param breaks  this lane's word does not continue the word of the lane below
template <class Word>
ORCHARD_INLINE std::uint32_t free_below(lane_mask mask, std::uint32_t top, bool breaks, std::uint32_t carry) {
    constexpr std::uint32_t width = width_of<Word>;
    // A run from below ends at a word that is not entirely free, or that does not continue its predecessor.
    const lane_mask below = simt::lanes_below(mask);
    const lane_mask stops = simt::ballot(mask, top != width || breaks) & below;
    const int stop = stops == 0 ? simt::lane_id() : simt::highest_bit(stops);
    const std::uint32_t top_there = simt::shuffle(mask, top, stop);
    const lane_mask past = stops == 0 ? below : below & ~((lane_mask{2} << stop) - 1);
    const std::uint32_t from = stops == 0 ? carry : top_there;
    return breaks ? 0 : from + static_cast<std::uint32_t>(simt::popcount(past)) * width;
}

/// Returns where a run of `n` free pages begins that ends in this word; `no_page` if there is none. The run may begin
/// in an earlier word. It returns one run at most: first the one that comes from below, then the lowest one inside the
/// word.
/// @param below  free pages right below the word
template <class Word>
ORCHARD_INLINE page_number run_ending_in(std::uint32_t word, Word free, std::uint32_t below, std::uint32_t n) {
    // If `below` is at least n, the run ends in an earlier word.
    if (below < n && below + ones_at_bottom(free) >= n) {
        return page_number{std::uint64_t{word} * width_of<Word> - below};
    }
    if (n <= width_of<Word>) {
        const std::uint32_t bit = find_ones(free, n);
        if (bit < width_of<Word>) {
            return number_of<Word>(word, bit);
        }
    }
    return no_page;
}

/// Finds and claims `n` >= 1 consecutive pages among `count` slots from `slot` on. With `measure`, it also returns the
/// length of the longest run. All lanes of a converged group call it with the same arguments. Cost: a load for each
/// slot, divided among the lanes of the group; four collectives for each W slots; a `claim_run` for each run tried.
///
/// Runs that begin before `slot` are seen from `slot` on only. With `count` covering all slots, the search is a sweep,
/// and `lost` says whether its result is no proof.
template <run_space Space>
ORCHARD_FN search_result search_run(const Space& s, lane_mask mask, std::uint32_t slot, std::uint32_t count,
                                    std::uint32_t n, bool measure) {
    using word = typename Space::word;
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    search_result result;
    std::uint32_t longest = 0;
    std::uint32_t carry = 0;
    for (std::uint32_t i = 0; i < count; i += width) {
        const std::uint32_t at = i + rank < count ? s.word_at(slot + i + rank) : no_word;
        word free = 0;
        if (at != no_word) {
            // Relaxed: the claim decides, and acquires.
            free = static_cast<word>(~s.bits(at).template load<order::relaxed>() & s.page_bits(at));
        }
        const bool breaks = at == no_word || at == 0 || !s.joins(at - 1);
        const std::uint32_t top = ones_at_top(free);
        const std::uint32_t below = free_below<word>(mask, top, breaks, carry);
        const page_number start = run_ending_in<word>(at, free, below, n);
        for (lane_mask seen = simt::ballot(mask, start != no_page); seen != 0; seen &= seen - 1) {
            const page_number first{simt::shuffle(mask, static_cast<std::uint64_t>(start), simt::lowest_bit(seen))};
            if (claim_run(s, mask, first, n)) {
                result.first = first;
                return result;
            }
            result.lost = true;
        }
        if (measure) {
            const std::uint32_t through = below + ones_at_bottom(free);
            const std::uint32_t inside = longest_run(free);
            longest = longest < through ? through : longest;
            longest = longest < inside ? inside : longest;
        }
        // For the next W words: the free pages at the end of the highest lane's word, and those below it if that word
        // is all free.
        carry = simt::shuffle(mask, top == width_of<word> ? below + top : top, simt::highest_bit(mask));
    }
    result.longest = measure ? simt::reduce_max(mask, longest) : 0;
    return result;
}

}  // namespace orchard::device::random_walk
