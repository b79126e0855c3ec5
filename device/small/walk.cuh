// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The walk: the first step of a search for pages, where only a few lanes of a group lack one. Each of these lanes
/// looks around by itself: at four words of the slab at its hint, then at four words of random slabs of the class. It
/// claims one of the free pages that it sees, at random, so that lanes that see the same words seldom want the same
/// page.
///
///     look      slab                         what the lane sees
///     1         that at its hint             | 4 words = 256 pages: one sector of memory |  17 free: claims the 5th
///     2 to 5    a random one of the class    |                    ...                    |
///
/// A full search (search.cuh) costs several times as much for each step, since all groups of a warp make its steps
/// together and a lane's state lies in local memory. Measured on an H200 with 100,000 threads of 16 B to 8 KiB, where
/// one in 40 lanes finds its hint taken: 24 us with the walk, 40 us without.
///
/// Lanes that lack pages of one class in great number do not walk: they reserve pages, so that the class gets as many
/// slabs as its warps have hints.
///
/// Source: M. Pham et al., ICS 2022, RW-BM; that a look is one sector of memory is Orchard's own.

#include "device/small/hint.cuh"
#include "device/state/fill_sample.cuh"

namespace orchard::device {

/// Lanes of a group that walk, at most. With 16, a million threads of 16 to 512 B take as long; with 8, a tenth more.
inline constexpr int max_walkers = 12;
/// Looks of a walk, at most. With three, 100,000 threads of 16 B to 8 KiB take a seventh longer.
inline constexpr int max_looks = 5;
/// Bitmap words of one look: a sector of memory, whose loads are in flight together.
inline constexpr std::uint32_t words_in_look = 4;

/// What a lane sees in one look.
struct page_look {
    std::uint32_t first = 0;            ///< the first of the words
    std::uint64_t free[words_in_look];  ///< their free pages; 0 beyond the end of the slab
    std::uint32_t count = 0;            ///< free pages in all of them
    std::uint32_t pages = 0;            ///< pages in all of them

    /// Returns the page of free page number `k` < `count`.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t page(std::uint32_t k) const {
        std::uint32_t word = 0;
        std::uint64_t bits = free[0];
        ORCHARD_UNROLL
        for (std::uint32_t w = 1; w < words_in_look; ++w) {
            const auto below = static_cast<std::uint32_t>(simt::popcount(bits));
            if (word == w - 1 && k >= below) {
                k -= below;
                word = w;
                bits = free[w];
            }
        }
        return (first + word) * 64 + static_cast<std::uint32_t>(nth_one(bits, static_cast<int>(k)));
    }
};

/// Reads four words of a slab, chosen by `random`. One lane calls it alone. Cost: four loads in flight together.
/// @param pages  the number of pages of the slab
ORCHARD_INLINE page_look look_at_slab(const heap_view& h, std::uint32_t pages, std::uint32_t segment,
                                      std::uint32_t random) {
    const std::uint32_t words = (pages + 63) / 64;
    page_look seen;
    seen.first = fraction_of((words + words_in_look - 1) / words_in_look, random) * words_in_look;
    ORCHARD_UNROLL
    for (std::uint32_t w = 0; w < words_in_look; ++w) {
        // Relaxed: what is seen is a hint; the claim acquires.
        seen.free[w] = seen.first + w < words ? ~h.bitmap(segment)[seen.first + w].load<order::relaxed>() : 0;
    }
    const std::uint32_t left = pages - seen.first * 64;
    ORCHARD_UNROLL
    for (std::uint32_t w = 0; w < words_in_look; ++w) {
        if (left < w * 64 + 64) {
            seen.free[w] &= left > w * 64 ? (std::uint64_t{1} << (left - w * 64)) - 1 : 0;
        }
        seen.count += static_cast<std::uint32_t>(simt::popcount(seen.free[w]));
    }
    seen.pages = left < words_in_look * 64 ? left : words_in_look * 64;
    return seen;
}

/// A request for a page, and what its walk finds. It lies in local memory, so that the caller keeps no registers for it
/// while it calls `walk`.
struct page_walk {
    lane_mask here;   ///< all searching lanes of the warp
    lane_mask group;  ///< those that ask the same heap for the same class
    std::uint32_t page_class;
    std::uint64_t request;  ///< bytes that this lane asks for, and its request (`asked_word`)
    std::uint32_t segment;  ///< of the slab at the hint; no segment of the heap if there was none
    found_page mine = {};   ///< the page that the lane has claimed, or none
    bool tight = false;     ///< of a leader: in a look, at most a ninth of the pages were free
};

/// Walks: sets `mine` and `tight` of `w`. Each lane calls it for itself; the leader of the group adds what it sees to
/// the sample of the class. Cost: for each look a load of the slab table (none for the slab at the hint), four loads of
/// a bitmap, an atomic, a load of the descriptor. What can be computed again is not kept: kernels that call `malloc`
/// have 48 registers for that reason, and not 56.
inline ORCHARD_NOINLINE void walk(const heap_view& h, page_walk& w) {
    const std::uint32_t page_class = w.page_class;
    std::uint32_t segment = w.segment;
    std::uint32_t random =
        mix(static_cast<std::uint32_t>(simt::position().global_thread()) ^ page_class << 24 ^ simt::noise() << 4);
    ORCHARD_NO_UNROLL
    for (int looks = 0; looks < max_looks; ++looks) {
        if (looks != 0 || segment >= h.segments) {
            // The index may be empty, or one at which a slab is being created.
            const std::uint32_t spread = h.state->slabs[page_class].spread.load<order::relaxed>();
            const std::uint32_t entry =
                spread == 0 ? 0 : h.table(page_class)[fraction_of(spread, random)].load<order::relaxed>();
            if (!is_slab_entry(entry)) {
                return;
            }
            segment = entry - 1;
            random = mix(random);
        }
        const page_look seen = look_at_slab(h, class_pages(page_class), segment, random);
        if (is_leader(w.group) && !fill_sample::are_many(seen.count, seen.pages)) {
            w.tight = true;
        }
        // The sample takes whole words, or those of slabs that have only one.
        if (is_leader(w.group) && (seen.pages % 64 == 0 || class_pages(page_class) < 64)) {
            h.state->slabs[page_class].sample.fetch_add<order::relaxed>(
                fill_sample::pack((seen.pages + 63) / 64, seen.count));
        }
        random = mix(random);
        if (seen.count == 0) {
            continue;
        }
        const std::uint32_t page = seen.page(fraction_of(seen.count, random));
        if (slab_claim(h, page_class, segment, page / 64, std::uint64_t{1} << page % 64) != 0 ||
            simt::mutation::is(fault::walk_claim)) {
            w.mine = {segment, page};
            return;
        }
    }
}

}  // namespace orchard::device
