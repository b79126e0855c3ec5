// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Any number of consecutive units by a random walk. Source: the paper, section 4.3, Algorithm 3 (RW_MALLOC).
///
/// A group draws a place in the bitmap and reads a region of consecutive words there, a word a lane; a run of n free
/// units anywhere in it is claimed. The lanes' small requests are added up, found as one run, and shared out:
///
///     lanes ask for      3       1   2           4        units
///     one run of 10    |...|    |.| |..|        |....|
///     end bits         |..1|    |1| |.1|        |...1|    so that each lane frees its own
///
/// Different from the paper:
/// - Runs cross any number of words, begin at any bit, and may be longer than a warp's words together; the published
///   code finds runs at bit 0 only. The lanes compute with ballots and one shuffle what 64 shuffles a round tell there.
/// - All words of a run are claimed at once by as many lanes, and given back where one of them was lost.
/// - The paper does not say how a free knows the length. Here a second bitmap has a one for the last unit of each
///   allocation: two bits a unit. (Heads instead of ends would not do: behind a run, units that are claimed but do
///   not have their head yet would count as part of it.)
/// - Bounded, with a sweep at the end. Lanes whose sum is not found are served by ever smaller groups.

#include "device/published/run_search.cuh"

namespace orchard::device::random_walk::rw_malloc {

/// Steps that lanes look for one run for all of them before they look for shorter ones.
inline constexpr std::uint32_t steps_together = 8;

/// Words that a step looks at for `n` units: as many as lanes, or as many as twice the run needs.
template <run_space Space>
ORCHARD_INLINE std::uint32_t region_words(lane_mask mask, std::uint32_t n) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const std::uint32_t need = 2 * run_words<typename Space::word>(width_of<typename Space::word> - 1, n);
    return width < need ? need : width;
}

/// The walk: lines 4 to 23 of Algorithm 3, at most so many times; all lanes of a converged group, the same arguments.
template <run_space Space, class Count>
ORCHARD_FN page_number walk(const Space& s, lane_mask mask, std::uint32_t n, std::uint32_t steps, walker<Count>& w) {
    const std::uint32_t slots = from_leader(mask, s.slots());
    const std::uint32_t region = region_words<Space>(mask, n);
    if (region >= slots) {
        return no_page;  // a step would be a sweep
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

/// `n` units for the whole group: walks, then sweeps; all lanes of a converged group, the same `n` >= 1. None: no run
/// of `n` was free when the last sweep looked, and `longest` was (or 64 sweeps in a row lost against others).
template <run_space Space, class Count>
ORCHARD_NOINLINE page_number get_run(const Space& s, lane_mask mask, std::uint32_t n, walker<Count>& w,
                                     std::uint32_t* longest) {
    for (int round = 0; round < max_sweeps; ++round) {
        const std::uint32_t slots = from_leader(mask, s.slots());
        // So that the walk reads as many words as the sweep does.
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

/// Marks where an allocation ends, for its free. Any lane, alone.
template <run_space Space>
ORCHARD_INLINE void mark_end(const Space& s, page_number last) {
    const page_place at = place_of<typename Space::word>(last);
    // Relaxed: the lane that frees was handed the allocation, and so comes behind this. Behind the last owner's
    // clearing of the bit it comes by the claim's acquire and the sync after it.
    s.ends(at.word).template fetch_or<order::relaxed>(ones<typename Space::word>(1, at.bit));
}

/// The sum of `value` over the lanes of `mask` below this one.
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

/// `n` consecutive units for every lane of `mask`, each its own number: the first unit, or none where no such run is
/// free or `n` is 0. All lanes of a converged group, any mask.
///
/// `together`: requests are added up as long as their sum is at most so many units.
/// Cost, where there is room: a few loads and one atomic for all lanes, and one for each lane's end bit.
template <run_space Space, class Count>
ORCHARD_FN page_number get_units(const Space& s, lane_mask mask, std::uint32_t n, walker<Count>& w,
                                 std::uint32_t together = width_of<typename Space::word> * 2) {
    page_number mine = no_page;
    lane_mask needing = simt::ballot(mask, n != 0);
    std::uint32_t limit = together;
    while (needing != 0) {
        // The lowest lane, and those behind it as long as the sum allows.
        const int first_lane = simt::lowest_bit(needing);
        const bool asks = (needing >> simt::lane_id() & 1) != 0;
        const std::uint32_t size = !asks ? 0 : n < limit ? n : limit + 1;  // so that sums do not overflow
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
            // A lane that wants more than the longest run need not look again.
            needing = simt::ballot(mask, asks && n <= longest) & ~batch;
        } else {
            limit = total / 2;
        }
    }
    return mine;
}

/// Gives back what begins at `first`. Any lane, alone, of any kernel; never waits. False: no allocation begins there,
/// as far as the bitmaps tell; nothing has changed then.
/// Cost: a load of both bitmaps for each word of the run, an atomic for the end bit and one for each word.
template <run_space Space>
ORCHARD_FN bool free_units(const Space& s, page_number first) {
    using word = typename Space::word;
    const page_place at = place_of<word>(first);
    std::uint32_t last = at.word;
    word end = 0;
    for (;; ++last) {
        const word from = last == at.word ? static_cast<word>(~ones<word>(at.bit)) : static_cast<word>(~word{0});
        // Relaxed: between `first` and its end only this allocation's bits stand, which the caller comes behind.
        end = lowest_one(static_cast<word>(s.ends(last).template load<order::relaxed>() & from));
        const word ours = end == 0 ? from : static_cast<word>(from & (end | (end - 1)));
        if ((~s.bits(last).template load<order::relaxed>() & ours) != 0 || (end == 0 && !s.joins(last))) {
            return false;
        }
        if (end != 0) {
            break;
        }
    }
    // Relaxed, and before the used bits: their release covers it. Of two frees at once only one finds the bit.
    if ((s.ends(last).template fetch_and<order::relaxed>(static_cast<word>(~end)) & end) == 0) {
        return false;
    }
    for (std::uint32_t k = at.word; k <= last; ++k) {
        const word from = k == at.word ? static_cast<word>(~ones<word>(at.bit)) : static_cast<word>(~word{0});
        give_up(s, k, k == last ? static_cast<word>(from & (end | (end - 1))) : from);
    }
    return true;
}

/// Units of a pool that hold so many bytes; 0 where the pool does not have as many at all.
template <class Pool>
ORCHARD_INLINE std::uint32_t units_for(const Pool& pool, std::uint64_t bytes) {
    const std::uint64_t n = bytes == 0 ? 1 : (bytes - 1) / pool.page_bytes() + 1;
    return n <= pool.pages() ? static_cast<std::uint32_t>(n) : 0;
}

/// Memory of at least `bytes` for every lane of `mask`, each its own size, or null; aligned to the pool's units.
/// All lanes of a converged group, any mask. No bytes count as one.
template <class Pool, class Count>
ORCHARD_FN void* allocate(const Pool& pool, lane_mask mask, std::uint64_t bytes, walker<Count>& w) {
    const page_number first = get_units(pool, mask, units_for(pool, bytes), w);
    return first == no_page ? nullptr : pool.address(first);
}

/// Gives back what `allocate` returned. Any lane, alone, of any kernel. False: nothing begins at `p`; see `free_units`.
template <class Pool>
ORCHARD_FN bool free(const Pool& pool, void* p) {
    const page_number first = pool.page_of(p);
    return first != no_page && free_units(pool, first);
}

}  // namespace orchard::device::random_walk::rw_malloc
