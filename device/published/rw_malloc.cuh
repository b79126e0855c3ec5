// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs of any number of consecutive units by a random walk. Source: the paper, section 4.3, Algorithm 3 (RW_MALLOC).
///
/// A group draws a position in the bitmap, reads a region of consecutive words from there, a word a lane, and claims a
/// run of n free units anywhere in it. The small requests of the lanes are added up, found as one run, and shared out:
///
///     lanes ask for      3       1   2           4        units
///     one run of 10    |...|    |.| |..|        |....|
///     end bits         |..1|    |1| |.1|        |...1|    so that each lane frees its own
///
/// Differences from the paper:
/// - Runs cross any number of words, begin at any bit, and may be longer than all words of a warp together. The
///   published code finds runs at bit 0 only. Ballots and one shuffle here compute what takes 64 shuffles a round
///   there.
/// - All words of a run are claimed at once, one word a lane, and given back if one of the words was lost.
/// - The paper does not say how a free knows the length. Here a second bitmap has a one for the last unit of each
///   allocation: two bits a unit. (First units instead of last ones would not do: units behind a run that are claimed,
///   but have no mark yet, would count as part of the run.)
/// - The loop is bounded, with a sweep at the end. If the sum of several lanes is not found, smaller groups try.

#include "device/published/run_search.cuh"

namespace orchard::device::random_walk::rw_malloc {

/// Steps in which lanes search one run for all of them before they search shorter ones. A long run may not exist
/// although each lane's own run does; no sweep is spent on it.
inline constexpr std::uint32_t steps_together = 8;

/// Returns the number of words that a step reads for `n` units: one a lane, but at least twice as many as the run
/// needs, so that a run of full length fits at about half of the positions in the region. For 1,000 units and 64-bit
/// words, a run lies in 17 words at most, and a warp reads 34.
template <run_space Space>
ORCHARD_INLINE std::uint32_t region_words(lane_mask mask, std::uint32_t n) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const std::uint32_t need = 2 * run_words<typename Space::word>(width_of<typename Space::word> - 1, n);
    return width < need ? need : width;
}

/// Walks: lines 4 to 23 of Algorithm 3, for at most `steps` steps. Returns the first unit of a claimed run, or none.
/// All lanes of a converged group call it with the same arguments; the leader draws for all (line 5). Cost of a step:
/// `search_run` over a region. Returns none at once if a region is the whole space, as a step would be a sweep.
template <run_space Space, class Count>
ORCHARD_FN page_number walk(const Space& s, lane_mask mask, std::uint32_t n, std::uint32_t steps, walker<Count>& w) {
    const std::uint32_t slots = from_leader(mask, s.slots());
    const std::uint32_t region = region_words<Space>(mask, n);
    if (region >= slots) {
        return no_page;
    }
    for (; steps != 0; --steps) {
        w.count.step();
        const std::uint32_t slot = from_leader(mask, w.random.below(slots - region + 1));  // line 5
        const search_result found = search_run(s, mask, slot, region, n, false);
        if (found.lost) {
            w.count.lost();
        }
        if (found.first != no_page) {
            return found.first;
        }
    }
    return no_page;
}

/// Returns the first of `n` units for the whole group: walks, then sweeps, in turns. All lanes of a converged group
/// call it with the same `n` >= 1. Returns none if no run of `n` was free in the last sweep (or if 64 sweeps in a row
/// lost to other groups), and sets `*longest` to the longest run that it saw.
///
/// A sweep that saw a run and lost it proves nothing: the other group may have given its part back (`claim_run`).
template <run_space Space, class Count>
ORCHARD_NOINLINE page_number get_run(const Space& s, lane_mask mask, std::uint32_t n, walker<Count>& w,
                                     std::uint32_t* longest) {
    for (int round = 0; round < max_sweeps; ++round) {
        const std::uint32_t slots = from_leader(mask, s.slots());
        // With this number, the walk reads as many words as the sweep does.
        const std::uint32_t steps = w.max_steps != 0 ? w.max_steps : slots / region_words<Space>(mask, n) + 1;
        const page_number first = walk(s, mask, n, from_leader(mask, steps), w);
        if (first != no_page) {
            return first;
        }
        w.count.step();
        const search_result swept = search_run(s, mask, 0, slots, n, true);
        *longest = swept.longest;
        if (swept.first != no_page || !swept.lost) {
            return swept.first;
        }
        w.count.lost();
    }
    return no_page;
}

/// Marks the last unit of an allocation, for its free. One lane calls it alone.
template <run_space Space>
ORCHARD_INLINE void mark_end(const Space& s, page_number last) {
    const page_place at = place_of<typename Space::word>(last);
    // Relaxed: the lane that frees got the allocation from this lane, and is thereby ordered after this. The claim's
    // acquire and the barrier after it order this after the last owner cleared the bit.
    s.ends(at.word).template fetch_or<order::relaxed>(ones<typename Space::word>(1, at.bit));
}

/// Returns the sum of `value` over the lanes of `mask` below this one. All lanes of `mask` call it. Cost: a shuffle for
/// each doubling of the lanes, five for a warp: after k rounds, `sum` covers the 2^k lanes up to this one. Values 3, 1,
/// 2, 4 give 0, 3, 4, 6.
ORCHARD_INLINE std::uint32_t sum_below(lane_mask mask, std::uint32_t value) {
    const int width = simt::popcount(mask);
    const int rank = simt::rank_in(mask);
    std::uint32_t sum = value;
    for (int distance = 1; distance < width; distance *= 2) {
        const int source = rank >= distance ? nth_one(mask, rank - distance) : simt::lane_id();
        const std::uint32_t other = simt::shuffle(mask, sum, source);
        sum += rank >= distance ? other : 0;
    }
    return sum - value;
}

/// Returns the first of `n` consecutive units for each lane of `mask`, each lane with its own `n`; none if no such run
/// is free, or `n` is 0. All lanes of a converged group call it; any mask.
///
/// Each round serves a batch: the lowest lane in need and the lanes after it as long as the sum stays within a limit.
/// Lanes that ask for 3, 1, 2 and 4 units form one batch of 10. If no run of 10 is found in `steps_together` steps, the
/// limit is halved to 5, and the batch is 3 and 1. A batch of one lane searches until a sweep decides (`get_run`).
///
/// @param together  requests are added up as long as their sum is at most this number of units
///
/// Cost, if there is room: a few loads and one atomic for all lanes, and one atomic for each lane's end bit.
template <run_space Space, class Count>
ORCHARD_FN page_number get_units(const Space& s, lane_mask mask, std::uint32_t n, walker<Count>& w,
                                 std::uint32_t together = width_of<typename Space::word> * 2) {
    page_number mine = no_page;
    lane_mask needing = simt::ballot(mask, n != 0);
    std::uint32_t limit = together;
    while (needing != 0) {
        // The lowest lane, and those after it as long as the sum allows.
        const int first_lane = simt::lowest_bit(needing);
        const bool asks = (needing >> simt::lane_id() & 1) != 0;
        const std::uint32_t size = !asks ? 0 : n < limit ? n : limit + 1;  // limited, so that sums do not overflow
        const std::uint32_t before = sum_below(mask, size);
        const lane_mask batch = simt::ballot(mask, asks && before + size <= limit) | lane_mask{1} << first_lane;
        const bool alone = (batch & (batch - 1)) == 0;
        const std::uint32_t total =
            simt::shuffle(mask, alone ? n : before + size, alone ? first_lane : simt::highest_bit(batch));
        std::uint32_t longest = 0;
        const page_number run = alone ? get_run(s, mask, total, w, &longest) : walk(s, mask, total, steps_together, w);
        if (run != no_page) {
            if ((batch >> simt::lane_id() & 1) != 0) {
                mine = page_number{static_cast<std::uint64_t>(run) + before};
                mark_end(s, page_number{static_cast<std::uint64_t>(mine) + n - 1});
            }
            needing &= ~batch;
        } else if (alone) {
            // A lane that wants more than the longest run need not search again.
            needing = simt::ballot(mask, asks && n <= longest) & ~batch;
        } else {
            limit = total / 2;
        }
    }
    return mine;
}

/// Frees the allocation that begins at `first`. Returns false, and changes nothing, if the bitmaps show no allocation
/// there. One lane of any kernel calls it alone; it never waits. Cost: a load of both bitmaps for each word of the run,
/// an atomic for the end bit, and one for each word.
///
/// First it looks for the end: the lowest end bit from `first` on. All units up to it must be taken, or the allocation
/// is being freed, or none begins here. Then it clears the end bit, which decides between two frees of the same
/// allocation, and at last the used bits. In the other order, another group could get the units while the old end bit
/// still stands.
template <run_space Space>
ORCHARD_FN bool free_units(const Space& s, page_number first) {
    using word = typename Space::word;
    const page_place at = place_of<word>(first);
    std::uint32_t last = at.word;
    word end = 0;
    for (;; ++last) {
        const word from = last == at.word ? static_cast<word>(~ones<word>(at.bit)) : static_cast<word>(~word{0});
        // Relaxed: between `first` and its end there are only bits of this allocation, and the caller is ordered after
        // their writes.
        end = lowest_one(static_cast<word>(s.ends(last).template load<order::relaxed>() & from));
        const word ours = end == 0 ? from : static_cast<word>(from & (end | (end - 1)));
        if ((~s.bits(last).template load<order::relaxed>() & ours) != 0 || (end == 0 && !s.joins(last))) {
            return false;
        }
        if (end != 0) {
            break;
        }
    }
    // Relaxed: this comes before the used bits are cleared, whose release covers it. If two lanes free the same
    // allocation, only one of them finds the bit.
    if ((s.ends(last).template fetch_and<order::relaxed>(static_cast<word>(~end)) & end) == 0) {
        return false;
    }
    for (std::uint32_t k = at.word; k <= last; ++k) {
        const word from = k == at.word ? static_cast<word>(~ones<word>(at.bit)) : static_cast<word>(~word{0});
        give_up(s, k, k == last ? static_cast<word>(from & (end | (end - 1))) : from);
    }
    return true;
}

/// Returns the number of units of a pool that hold `bytes`; 0 if the pool has fewer. 0 bytes need one unit, so that
/// each allocation has an address of its own.
template <class Pool>
ORCHARD_INLINE std::uint32_t units_for(const Pool& pool, std::uint64_t bytes) {
    const std::uint64_t n = bytes == 0 ? 1 : (bytes - 1) / pool.page_bytes() + 1;
    return n <= pool.pages() ? static_cast<std::uint32_t>(n) : 0;
}

/// Returns memory of at least `bytes` for each lane of `mask`, each lane with its own size, or null. It is aligned to
/// the pool's units. 0 bytes count as one. All lanes of a converged group call it; any mask.
template <class Pool, class Count>
ORCHARD_FN void* allocate(const Pool& pool, lane_mask mask, std::uint64_t bytes, walker<Count>& w) {
    const page_number first = get_units(pool, mask, units_for(pool, bytes), w);
    return first == no_page ? nullptr : pool.address(first);
}

/// Frees what `allocate` returned. Returns false if no allocation begins at `p`; see `free_units`. One lane of any
/// kernel calls it alone.
template <class Pool>
ORCHARD_FN bool free(const Pool& pool, void* p) {
    const page_number first = pool.page_of(p);
    return first != no_page && free_units(pool, first);
}

}  // namespace orchard::device::random_walk::rw_malloc
