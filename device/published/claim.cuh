// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How pages are claimed and given back, whichever algorithm found them; and the sweep that decides that there is no
/// page.
///
///     walk     steps until a page is found, `steps_before_sweep` of them at most
///     sweep    reads every word:   a page was won                   done
///                                  free pages, but all were lost    walk again; `max_sweeps` sweeps at most
///                                  no free page                     none: the space is full
///
/// The published loops have no exit in a full pool. The sweep gives one: no word had a free page when it was read.

#include "device/host_rpc/client.cuh"
#include "device/published/space.cuh"

namespace orchard::device::random_walk {

/// Returns the bits among `bits` of a word that no other lane had: they are the caller's now. One lane calls it alone.
/// Cost: one atomic; in a heap also a load of the descriptor.
///
/// One atomic on the wanted bits both tests and sets: of several lanes at one bit, exactly one finds it clear. In a
/// heap, the slab may have been retired since the lane drew the word. The check comes *after* the atomic, because a
/// slab with a taken page is not retired any more (device/state/slab.cuh).
template <page_space Space>
ORCHARD_INLINE typename Space::word claim(const Space& s, std::uint32_t word, typename Space::word bits) {
    auto&& at = s.bits(word);
    // Acquire: pairs with the release in `give_up`, so that the last owner's writes come before the next one's.
    simt::mutation::weaken_next(fault::claim_acquire);
    const typename Space::word won = bits & ~at.template fetch_or<order::acquire>(bits);
    if (won != 0 && !s.still_valid(word) && !simt::mutation::is(fault::claim_check)) {
        // Release: pairs with the acquire of the next lane that claims these bits; that lane then also sees what this
        // one has acquired.
        at.template fetch_and<order::release>(~won);
        return 0;
    }
    return won;
}

/// Gives back pages of a word, which the caller owns. Returns the bits that were taken, so that a caller that owns less
/// than it believes can tell. One lane calls it alone; it never waits. Cost: one atomic.
template <page_space Space>
ORCHARD_INLINE typename Space::word give_up(const Space& s, std::uint32_t word, typename Space::word bits) {
    // Release: pairs with the acquire in `claim`. An atomic on only these bits: a store of the whole word would undo
    // concurrent claims and frees.
    simt::mutation::weaken_next(fault::free_release);
    return bits & s.bits(word).template fetch_and<order::release>(static_cast<typename Space::word>(~bits));
}

/// Frees a page (FREEPAGE in the paper) of any of the algorithms except RW_malloc. Returns false if the page was not
/// taken. One lane of any kernel calls it alone: the release covers this lane's accesses to the page, and all that is
/// ordered before them. Cost: one atomic.
template <page_space Space>
ORCHARD_INLINE bool free_page(const Space& s, page_number page) {
    const page_place at = place_of<typename Space::word>(page);
    return give_up(s, at.word, ones<typename Space::word>(1, at.bit)) != 0;
}

/// Reads every word, and claims a page for each lane of `mask` whose `page` is none. Returns whether it saw a free
/// page; if it did not, the lanes without a page may give up. All lanes of a converged group call it. Cost: a load for
/// each word, divided among the lanes of the group; an atomic and three collectives for each word with free pages,
/// until every lane has one.
///
/// A lane that saw free pages claims as many as all lanes together lack, and gives them away by rank, so that every
/// page it wins is used. A page that it loses has gone to another group, and the sweep goes on.
template <page_space Space>
inline ORCHARD_NOINLINE bool sweep(const Space& s, lane_mask mask, page_number* page) {
    using word = typename Space::word;
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    const std::uint32_t slots = from_leader(mask, s.slots());
    lane_mask without = simt::ballot(mask, *page == no_page);
    bool seen_free = false;
    for (std::uint32_t i = 0; i < slots && without != 0; i += width) {
        const std::uint32_t at = i + rank < slots ? s.word_at(i + rank) : no_word;
        // Relaxed: a claim follows before the value is relied on.
        const word free =
            at == no_word ? word{0} : static_cast<word>(~s.bits(at).template load<order::relaxed>() & s.page_bits(at));
        lane_mask givers = simt::ballot(mask, free != 0);
        seen_free = seen_free || givers != 0;
        for (; givers != 0 && without != 0; givers &= givers - 1) {
            const int giver = simt::lowest_bit(givers);
            word won = 0;
            if (simt::lane_id() == giver) {
                won = claim(s, at, first_ones(free, simt::popcount(without)));
            }
            won = simt::shuffle(mask, won, giver);
            const std::uint32_t from = simt::shuffle(mask, at, giver);
            const int place = simt::rank_in(without);
            if (*page == no_page && place < simt::popcount(won)) {
                *page = number_of<word>(from, static_cast<std::uint32_t>(nth_one(won, place)));
            }
            without = simt::ballot(mask, *page == no_page);
        }
    }
    simt::sync(mask);  // what a giver acquired with its claim holds for the lanes that it gave to
    return seen_free;
}

/// Returns a page for the calling lane, or none if the last sweep saw no free page (or if 64 sweeps in a row lost to
/// other lanes). Walks step by step, each lane for itself, and sweeps together with the other lanes of `mask` that have
/// found nothing. `step` returns a page or none. All lanes of a converged group call it. Cost: the steps of the slowest
/// lane.
///
/// Lanes that have a page return before the others sweep. The caller's next collective over its mask joins them again.
template <page_space Space, class Count, class Step>
ORCHARD_FN page_number walk_alone(const Space& s, lane_mask mask, walker<Count>& w, Step step) {
    page_number page = no_page;
    for (int round = 0; round < max_sweeps; ++round) {
        for (std::uint32_t left = w.steps_before_sweep(s.slots()); left != 0 && page == no_page; --left) {
            w.count.step();
            page = step();
        }
        // Not `converge`: lanes that walk another space may be converged there, too.
        mask = simt::ballot(mask, page == no_page);
        if (page != no_page) {
            break;
        }
        const bool seen_free = sweep(s, mask, &page);
        mask = simt::ballot(mask, page == no_page);
        if (page != no_page || !seen_free) {
            break;
        }
    }
    return page;
}

}  // namespace orchard::device::random_walk
