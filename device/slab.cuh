// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A slab: a segment cut into pages of one class, with a bitmap (1 = taken).
///
/// Claiming: OR the bits in, keep those that were 0, *then* look whether the descriptor still says "slab of this
/// class"; if not, take the claim back. Retiring: claim every page, *then* change the descriptor, then clear the
/// bitmap. So a claim that succeeds and still finds the descriptor cannot be of a slab that was retired, and one that
/// comes too late undoes itself.

#include "device/heap_state.cuh"

namespace orchard::device {

/// The `n` lowest ones of `bits`.
ORCHARD_INLINE std::uint64_t lowest_ones(std::uint64_t bits, std::uint32_t n) {
    std::uint64_t left = bits;
    for (std::uint32_t i = 0; i < n && left != 0; ++i) {
        left &= left - 1;
    }
    return bits & ~left;
}

/// Claims up to `want` pages in one bitmap word. Any lane, alone. The bits won: 0 where the word is full or the
/// segment is no slab of the class (any more).
/// Cost: a load, one atomic, a load of the descriptor.
inline ORCHARD_FN std::uint64_t slab_claim(const heap_view& h, std::uint32_t page_class, std::uint32_t segment,
                                           std::uint32_t word, std::uint32_t want) {
    auto& w = h.bitmap(segment)[word];
    const std::uint64_t free_bits = ~w.load<order::relaxed>() & class_word_mask(page_class, word);
    if (free_bits == 0) {
        return 0;
    }
    const std::uint64_t bits = lowest_ones(free_bits, want);
    // Acquires what the last owners released with their frees, and a retired slab's change of descriptor.
    simt::mutation::weaken_next(fault::claim_acquire);
    const std::uint64_t won = bits & ~w.fetch_or<order::acquire>(bits);
    if (won == 0) {
        return 0;
    }
    if (!descriptor::is_slab_of(h.descriptors[segment].load<order::acquire>(), page_class) &&
        !simt::mutation::is(fault::claim_check)) {
        w.fetch_and<order::release>(~won);
        return 0;
    }
    return won;
}

/// Puts `segment` into the class's table; all lanes of a converged group. Its place there, or `h.segments` where the
/// table is full (which cannot last: it has an entry for each segment).
inline ORCHARD_FN std::uint32_t slab_table_insert(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                                  std::uint32_t segment) {
    auto& head = h.state->slabs[page_class];
    auto* table = h.table(page_class);
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    if (from_leader(mask, head.holes.load<order::relaxed>()) != 0) {
        const std::uint32_t count = from_leader(mask, head.count.load<order::relaxed>());
        for (std::uint32_t i = 0; i < count; i += width) {
            const std::uint32_t index = i + rank;
            lane_mask holes = simt::ballot(mask, index < count && table[index].load<order::relaxed>() == 0);
            for (; holes != 0; holes &= holes - 1) {
                const int lane = simt::lowest_bit(holes);
                std::uint32_t won = 0;
                if (simt::lane_id() == lane) {
                    std::uint32_t expected = 0;
                    won = table[index].compare_exchange<order::release>(expected, segment + 1) ? 1 : 0;
                    if (won != 0) {
                        head.holes.fetch_sub<order::relaxed>(1);
                    }
                }
                if (simt::shuffle(mask, won, lane) != 0) {
                    return simt::shuffle(mask, index, lane);
                }
            }
        }
    }
    std::uint32_t place = h.segments;
    if (is_leader(mask)) {
        // Never beyond the table, also not for a moment: others read up to the count.
        std::uint32_t count = head.count.load<order::relaxed>();
        while (count < h.segments && !head.count.compare_exchange<order::relaxed>(count, count + 1)) {
        }
        place = count;
        if (place < h.segments) {
            table[place].store<order::release>(segment + 1);
        }
    }
    return from_leader(mask, place);
}

/// Makes `segment`, which the caller owns, a slab of the class; all lanes of a converged group. False where the table
/// had no place at the moment: the caller still owns the segment.
/// Cost: O(1) unless the table has holes, then O(table / lanes).
inline ORCHARD_FN bool slab_publish(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                    std::uint32_t segment) {
    const std::uint32_t place = slab_table_insert(h, mask, page_class, segment);
    if (place >= h.segments) {
        return false;
    }
    if (is_leader(mask)) {
        auto& d = h.descriptors[segment];
        // Who finds the table's entry before this store claims, sees no slab yet, and undoes. Only the owner of a
        // segment writes its descriptor.
        d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::slab, page_class, place));
        h.add(counter::slabs_published, 1);
    }
    simt::sync(mask);
    return true;
}

/// Claims every page of a slab, if all are free; all lanes of a converged group. On failure nothing has changed.
inline ORCHARD_FN bool slab_claim_all(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                      std::uint32_t segment) {
    const std::uint32_t words = class_words(page_class);
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    auto* bitmap = h.bitmap(segment);
    std::uint32_t end = 0;   // words [0, end) were tried, by all lanes
    std::uint32_t mine = 0;  // how many of this lane's are claimed: they are the first ones
    bool all = true;
    while (all && end < words) {
        const std::uint32_t word = end + rank;
        bool won = true;
        if (word < words) {
            std::uint64_t expected = 0;
            won = simt::mutation::is(fault::retire_claim)
                      ? bitmap[word].load<order::acquire>() == 0
                      : bitmap[word].compare_exchange<order::acquire>(expected, class_word_mask(page_class, word));
            mine += won ? 1 : 0;
        }
        end += width;
        all = simt::ballot(mask, won) == mask;
    }
    if (all) {
        return true;
    }
    for (std::uint32_t i = 0; i < mine; ++i) {
        const std::uint32_t word = i * width + rank;
        bitmap[word].fetch_and<order::release>(~class_word_mask(page_class, word));
    }
    return false;
}

/// Ends a slab that has no page in use; all lanes of a converged group. True: the caller owns the segment, whose
/// bitmap is clear. False: it was no slab, or a page of it is in use.
/// Cost: one atomic and one store for each 64 pages, over the lanes of the group.
inline ORCHARD_FN bool slab_retire(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                   std::uint32_t segment) {
    const std::uint64_t before = from_leader(mask, h.descriptors[segment].load<order::acquire>());
    if (!descriptor::is_slab_of(before, page_class) || !slab_claim_all(h, mask, page_class, segment)) {
        return false;
    }
    // All pages are ours. The slab may have been another incarnation until a moment ago: only now is it still.
    const std::uint64_t now = from_leader(mask, h.descriptors[segment].load<order::acquire>());
    const std::uint32_t words = class_words(page_class);
    auto* bitmap = h.bitmap(segment);
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    const bool still = descriptor::is_slab_of(now, page_class);
    const auto end_descriptor = [&] {
        if (still && is_leader(mask)) {
            h.descriptors[segment].store<order::release>(descriptor::next(now, segment_kind::none, 0, 0));
        }
    };
    if (!simt::mutation::is(fault::retire_order)) {
        end_descriptor();
    }
    simt::sync(mask);
    for (std::uint32_t word = rank; word < words; word += width) {
        // Releases the change of descriptor to whoever claims a bit from here on. AND, not a store: a latecomer may
        // hold bits beyond the pages for a moment.
        bitmap[word].fetch_and<order::release>(~class_word_mask(page_class, word));
    }
    simt::sync(mask);
    if (simt::mutation::is(fault::retire_order)) {
        end_descriptor();
    }
    if (!still) {
        return false;
    }
    if (is_leader(mask)) {
        auto& head = h.state->slabs[page_class];
        h.table(page_class)[descriptor::extent(now)].store<order::release>(0);
        head.holes.fetch_add<order::relaxed>(1);
        h.add(counter::slabs_retired, 1);
    }
    return true;
}

}  // namespace orchard::device
