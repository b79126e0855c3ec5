// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// One step of a search for pages: groups claim pages that their lanes have seen, and share them.
///
/// All groups of a warp that search do so in step. Every collective is over all searching lanes (`here`), and a group
/// is a mask within it, so that no group waits for another one's search. A lane's state lies in its local memory, and
/// the phases are separate functions; docs/design.md, "Registers", says why.
///
/// One step, for a group of which lanes 1, 4, 6 and 7 lack a page:
///
///     `seen`     lane 1: nothing    lane 4: 2 pages    lane 6: 1 page    lane 7: nothing
///     `claim`    lanes 4 and 6 see pages, no lane sees four: lane 4 claims 2, lane 6 claims 1, each by one atomic.
///                Each winner keeps a page; lane 4 has one more.
///     `share`    lane 4 gives it to the first lane that still lacks: lane 1. Lane 7 goes on to the next step.
///
/// Source: M. Pham et al., ICS 2022, section 4: lanes probe, winners share by ballot, rank and shuffle.

#include "device/small/slab_growth.cuh"

namespace orchard::device {

/// Where the metadata of a class lies: copies of the heap view's pointers, which a search needs again and again.
struct class_slabs {
    ORCHARD_INLINE class_slabs(const heap_view& h, std::uint32_t page_class)
        : table{h.table(page_class)},
          bitmaps{h.bitmaps},
          descriptors{h.descriptors},
          descriptor_mask{h.descriptor_mask} {}

    device_word<std::uint32_t>* table;        ///< [max_slabs]: the class's own part of the slab tables
    device_word<std::uint64_t>* bitmaps;      ///< [segments][bitmap_words]: of all segments
    device_word<std::uint64_t>* descriptors;  ///< [descriptor_mask + 1]: of all segments
    std::uint32_t descriptor_mask;

    [[nodiscard]] ORCHARD_INLINE device_word<std::uint64_t>& descriptor(std::uint32_t segment) const {
        return descriptors[descriptor_place(segment, descriptor_mask)];
    }
    [[nodiscard]] ORCHARD_INLINE device_word<std::uint64_t>* bitmap(std::uint32_t segment) const {
        return bitmaps + segment * bitmap_words;
    }
};

/// Some pages of one bitmap word: those that a lane has seen free, or has claimed.
struct some_pages {
    std::uint32_t segment = 0;  ///< the slab's segment
    std::uint32_t word = 0;     ///< the word of its bitmap
    std::uint64_t bits = 0;     ///< the pages: bit b is page 64 * `word` + b

    /// Returns the page of bit `bit`.
    [[nodiscard]] ORCHARD_INLINE found_page page(int bit) const {
        return {segment, word * 64 + static_cast<std::uint32_t>(bit)};
    }
};

/// A searching lane and its group. All searching lanes call a function together, unless its comment says otherwise.
struct page_seeker {
    class_slabs slabs;
    lane_mask here;   ///< all searching lanes of the warp
    lane_mask group;  ///< those that ask the same heap for the same class
    std::uint32_t page_class;
    std::uint32_t pages;    ///< the number of pages of a slab
    std::uint32_t random;   ///< the last random number; the first depends on thread, class and clock
    found_page mine;        ///< this lane's page, once it has one
    some_pages seen;        ///< pages that this lane has seen free; after `claim`, those it has claimed for other lanes
    bool claimed = false;   ///< the pages seen are claimed already
    bool reserved = false;  ///< the pages seen are reserved for the group: `claim` takes all of them

    ORCHARD_FN page_seeker(const heap_view& h, lane_mask searching, lane_mask own_group, std::uint32_t of_class)
        : slabs{h, of_class},
          here{searching},
          group{own_group},
          page_class{of_class},
          pages{class_pages(of_class)},
          random{mix(static_cast<std::uint32_t>(simt::position().global_thread()) ^ of_class << 24 ^
                     simt::noise() << 4)} {}

    /// Returns whether this lane has no page yet.
    [[nodiscard]] ORCHARD_INLINE bool lacks() const { return mine.page == found_page::none; }
    /// Returns the lanes of the group that have no page yet.
    [[nodiscard]] ORCHARD_INLINE lane_mask without() const { return group & simt::ballot(here, lacks()); }
    /// Returns the value of the group's leader.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t from_own_leader(std::uint32_t value) const {
        return simt::shuffle(here, value, simt::leader_of(group));
    }
    ORCHARD_INLINE std::uint32_t next_random() { return random = mix(random + golden_ratio); }
    /// Returns a random number below `n`.
    ORCHARD_INLINE std::uint32_t below(std::uint32_t n) { return fraction_of(n, next_random()); }
    /// Returns the number of bitmap words of a slab.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t words() const { return (pages + 63) / 64; }
    /// Returns the free pages of a word, without the bits beyond the slab's last page. Relaxed, so that loads of
    /// several words overlap: the result is a hint, and the claim acquires. One lane calls it alone. Cost: one load.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t free_in(std::uint32_t segment, std::uint32_t word) const {
        const std::uint32_t left = pages - word * 64;
        const std::uint64_t all = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
        return ~slabs.bitmap(segment)[word].load<order::relaxed>() & all;
    }

    ORCHARD_FN bool claim();
    ORCHARD_FN void share();
};

/// Claims pages that the lanes have seen. Returns whether a lane of the group saw a free page. If a lane saw enough
/// pages for its group, it claims them for all. Otherwise each lane that saw pages claims a share. A group claims no
/// more than it needs, since another group misses pages that are claimed and given back: it might open a slab for which
/// there is no need, or fail.
///
/// Afterwards a lane that won pages has one of them as `mine`, if it lacked one, and the rest as `seen`, for `share`.
/// Cost: for each claiming lane one atomic and a load of the descriptor, in flight together for all lanes of the warp.
///
/// Shares: if 4 lanes see pages and 10 lanes lack one, they are 3, 3, 2 and 2. If 10 see pages and 4 lack one, the
/// first 4 of the 10 claim one page each. Lanes that see reserved pages claim all of them: together they see no more
/// than the group lacks.
inline ORCHARD_NOINLINE bool page_seeker::claim() {
    const lane_mask lacking = without();
    const auto need = static_cast<std::uint32_t>(simt::popcount(lacking));
    const bool enough = need != 0 && static_cast<std::uint32_t>(simt::popcount(seen.bits)) >= need;
    const lane_mask rich = group & simt::ballot(here, enough);
    const lane_mask seers = group & simt::ballot(here, need != 0 && seen.bits != 0);
    const lane_mask claimers = rich != 0 ? rich & (~rich + 1) : seers;
    const auto place = static_cast<std::uint32_t>(simt::rank_in(claimers));
    std::uint64_t won = 0;
    if ((claimers >> simt::lane_id() & 1) != 0 && place < need) {
        std::uint32_t share = need;
        std::uint32_t start = 0;
        if (rich == 0 && !reserved) {
            const auto count = static_cast<std::uint32_t>(simt::popcount(seers));
            if (!simt::mutation::is(fault::share_sum)) {
                share = count >= need ? 1 : need / count + (place < need % count ? 1 : 0);
            }
            start = next_random() >> 26;  // lanes that see the same word begin at different bits
        }
        // The pages of a slab that this lane has just created were claimed before it was published (`settle_slab`).
        won = claimed ? seen.bits
                      : slab_claim(slabs, page_class, seen.segment, seen.word, ones_from(seen.bits, share, start));
        if (won != 0 && lacks() && !simt::mutation::is(fault::share_ballot)) {
            mine = seen.page(simt::lowest_bit(won));
            won &= won - 1;
        }
    }
    seen.bits = won;
    return seers != 0;
}

/// Gives pages that some lanes have claimed to lanes of their group without a page, one giver at a time. All these
/// pages are needed, since `claim` claimed no more. The k-th lane that lacks a page gets the k-th page of the giver.
/// Cost: three shuffles and two ballots for each giver of the group that has most.
inline ORCHARD_NOINLINE void page_seeker::share() {
    lane_mask lacking = without();
    lane_mask givers = group & simt::ballot(here, seen.bits != 0);
    ORCHARD_NO_UNROLL
    while (simt::ballot(here, givers != 0) != 0) {
        // Lanes of a group without a giver take part in the shuffles as well, each with itself as the source.
        const int giver = givers != 0 ? simt::lowest_bit(givers) : simt::lane_id();
        const some_pages given{simt::shuffle(here, seen.segment, giver), simt::shuffle(here, seen.word, giver),
                               simt::shuffle(here, seen.bits, giver)};
        const int rank = simt::rank_in(lacking);
        const bool served = givers != 0 && lacks() && rank < simt::popcount(given.bits);
        if (served) {
            mine = given.page(nth_one(given.bits, rank));
        }
        const lane_mask got = group & simt::ballot(here, served);
        if (!simt::mutation::is(fault::share_ballot)) {
            lacking &= ~got;
        }
        givers &= givers - 1;
    }
    simt::sync(here);  // a giver's acquire holds for the lanes that got its pages
}

}  // namespace orchard::device
