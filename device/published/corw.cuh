// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The collaborative random walk, CoRW. Source: the paper, section 4.2, Algorithm 2 (Collaborative GETPAGE within a
/// warp); comments below name its lines.
///
/// All lanes of a group draw a word each and share the pages they see, until every lane has one:
///
///     lane            0    1          2    3          4        5
///     free pages      -    P1 P2 P3   -    P4 P5      P6       -
///     first round     P1   P4         P6                             lanes that need one, by rank <- lanes that have
///     second round                         P2         P5             some, by rank
///     third round                                              P3
///
/// Differences from the paper:
/// - The rounds only plan, in registers. Then each giving lane claims all planned pages with one atomic OR, and each
///   receiving lane checks whether its bit was won. A page thus has one owner also without a lock. A page that is freed
///   meanwhile is not lost, as it is if a lane writes its copy of the word back. Bits that no lane needs stay clear.
/// - `Locked`: with the LockMap. Without it, two lanes may plan the same pages; the receivers of the loser then need
///   another page. To make that rare, a lane offers its pages from a random bit on, not from the lowest.
/// - Any group of lanes is supported, not only full warps. The loop is bounded, with a sweep at the end; the published
///   loop has no other exit.

#include "device/published/claim.cuh"

namespace orchard::device::random_walk::corw {

/// Tries to lock a word (line 6). Returns false if another lane holds the lock: the word then counts as full, and the
/// lane takes part as a receiver only. No lane waits for a lock. A lane that stops while it holds one thus keeps the
/// other walks from that word, and from nothing else. Cost: one atomic.
template <locked_space Space>
ORCHARD_INLINE bool try_lock(const Space& s, std::uint32_t word) {
    const std::uint32_t bit = 1u << (word % 32);
    // Acquire: pairs with the release in `unlock`; the bits that the last holder claimed are then seen as taken.
    return (s.locks(word).template fetch_or<order::acquire>(bit) & bit) == 0;
}
/// Unlocks a word (line 18).
template <locked_space Space>
ORCHARD_INLINE void unlock(const Space& s, std::uint32_t word) {
    // Release: pairs with the acquire in `try_lock`.
    s.locks(word).template fetch_and<order::release>(~(1u << (word % 32)));
}

/// The pages that one lane gives and is promised in a step.
template <class Word>
struct plan {
    Word give = 0;   ///< bits of this lane's word that are promised to lanes
    int giver = -1;  ///< the lane that promises this lane a page; negative: none
    Word bit = 0;    ///< the promised bit of the giver's word
};

/// Shares the free pages that the lanes saw (`free`) among the lanes of `need` (lines 8 to 17). Returns what this lane
/// gives and gets. Each lane offers its pages from bit `start` on. All lanes of `mask` call it. It works in registers:
/// a shuffle and two ballots for each round, no memory access.
///
/// In each round, every lane with pages offers one. The lane of `need` with s lower lanes in `need` reads the offer of
/// lane number s among those with pages (line 13, `fks` in the paper). Rounds end when a side is empty; after at most
/// as many rounds as one lane has pages.
template <class Word>
ORCHARD_FN plan<Word> share_out(lane_mask mask, lane_mask need, Word free, std::uint32_t start) {
    plan<Word> p;
    lane_mask has = simt::ballot(mask, free != 0);
    while (need != 0 && has != 0) {
        const int lane = simt::lane_id();
        const Word offer = one_from(free, start);  // lines 10, 11
        const int place = simt::rank_in(need);     // line 12
        const bool served = (need >> lane & 1) != 0 && place < simt::popcount(has);
        const int source = served ? nth_one(has, place) : lane;   // line 13
        const Word offered = simt::shuffle(mask, offer, source);  // line 14
        if (served) {
            p.giver = source;
            p.bit = offered;
        }
        if (free != 0 && simt::rank_in(has) < simt::popcount(need)) {
            p.give |= offer;  // a lane has taken it
        }
        // An offer that no lane needed is dropped, too: that happens in the last round only, and its bit is not
        // claimed.
        free &= ~offer;
        need = simt::ballot(mask, (need >> lane & 1) != 0 && !served);  // line 15
        has = simt::ballot(mask, free != 0);                            // line 16
    }
    return p;
}

/// Performs one iteration of Algorithm 2: lines 5 to 18. `need` are the lanes whose `page` is none; those that get one
/// have it in `page` afterwards. All lanes of `mask` call it, also those that have a page: they look for the others.
/// Cost: a load a lane, an atomic for each giving lane, and with the LockMap two more a lane.
///
/// A lane's promise holds only if its giver won the bit: `given & p.bit`. Another lane, of this group or another one,
/// may have claimed it between the load and the atomic; with locks, only a lane that sweeps. The lane then goes on
/// without a page.
template <bool Locked, page_space Space, class Count>
ORCHARD_FN void step(const Space& s, lane_mask mask, lane_mask need, walker<Count>& w, page_number* page) {
    using word = typename Space::word;
    const std::uint32_t at = s.draw_word(w.random);
    bool usable = at != no_word;
    if constexpr (Locked) {
        usable = usable && try_lock(s, at);
    }
    // Relaxed: the claim decides, and acquires.
    const word free =
        usable ? static_cast<word>(~s.bits(at).template load<order::relaxed>() & s.page_bits(at)) : word{0};
    const plan<word> p = share_out(mask, need, free, Locked ? 0 : w.random.below(width_of<word>));
    word won = 0;
    if (p.give != 0) {
        won = claim(s, at, p.give);
        if (won != p.give) {
            w.count.lost();
        }
    }
    if constexpr (Locked) {
        // After the claim: the next holder then sees these bits as taken, and plans others.
        if (usable) {
            unlock(s, at);
        }
    }
    const int source = p.giver >= 0 ? p.giver : simt::lane_id();
    const word given = simt::shuffle(mask, won, source);
    const std::uint32_t from = simt::shuffle(mask, at, source);
    if (p.giver >= 0 && (given & p.bit) != 0) {
        *page = number_of<word>(from, static_cast<std::uint32_t>(simt::lowest_bit(p.bit)));
    }
}

/// Returns a page for the calling lane, or none if the space is full. `Locked`: with the LockMap. All lanes of a
/// converged group call it; any mask. Cost of a step: one load a lane, one atomic for each giving lane, and with the
/// LockMap two more a lane.
///
/// All lanes take the same number of steps (WAS is TAS), until none needs a page. A sweep claims without locks: it
/// needs none, since its claims are atomics on single bits.
template <bool Locked, page_space Space, class Count>
requires(!Locked || locked_space<Space>) ORCHARD_FN page_number
    get_page(const Space& s, lane_mask mask, walker<Count>& w) {
    page_number page = no_page;
    const std::uint32_t most = from_leader(mask, w.steps_before_sweep(s.slots()));
    for (int round = 0; round < max_sweeps; ++round) {
        lane_mask need = simt::ballot(mask, page == no_page);
        for (std::uint32_t left = most; need != 0 && left != 0; --left) {
            w.count.step();
            step<Locked>(s, mask, need, w, &page);
            need = simt::ballot(mask, page == no_page);
        }
        simt::sync(mask);  // what a giver acquired with its claim holds for the lanes that it gave to
        if (need == 0 || !sweep(s, mask, &page) || simt::ballot(mask, page == no_page) == 0) {
            break;
        }
    }
    return page;
}

}  // namespace orchard::device::random_walk::corw
