// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A slab: a segment cut into pages of one class, with a bitmap (1 = taken).
///
/// Claiming: OR the bits in, keep those that were 0, *then* look whether the descriptor still says "slab of this
/// class"; if not, take the claim back. Retiring: claim every page, *then* change the descriptor, then clear the
/// bitmap. So a claim that succeeds and still finds the descriptor cannot be of a slab that was retired, and one that
/// comes too late undoes itself.

#include "device/group/bits.cuh"
#include "device/heap_state.cuh"

namespace orchard::device {

/// The `n` lowest ones of `bits`, or all where there are fewer.
ORCHARD_INLINE std::uint64_t lowest_ones(std::uint64_t bits, std::uint32_t n) {
    if (static_cast<std::uint32_t>(simt::popcount(bits)) <= n) {
        return bits;
    }
    return bits & ((std::uint64_t{1} << nth_one(bits, static_cast<int>(n))) - 1);
}

/// `n` ones of `bits`, or all where there are fewer: from bit `start` on, behind the highest follows the lowest.
ORCHARD_INLINE std::uint64_t ones_from(std::uint64_t bits, std::uint32_t n, std::uint32_t start) {
    const std::uint64_t above = bits & ~std::uint64_t{0} << start;
    const std::uint64_t first = lowest_ones(above, n);
    return first | lowest_ones(bits & ~above, n - static_cast<std::uint32_t>(simt::popcount(first)));
}

/// Sets `bits` of a bitmap word, and returns what it was. Those that were 0 are the caller's, but a claim only once
/// `confirm_claim` says so.
ORCHARD_INLINE std::uint64_t set_bits(device_word<std::uint64_t>& word, std::uint64_t bits) {
    // Acquires what the last owners released with their frees, and a retired slab's change of descriptor.
    simt::mutation::weaken_next(fault::claim_acquire);
    return word.fetch_or<order::acquire>(bits);
}

/// After `set_bits`: what of `won` is claimed. Nothing where the segment is no slab of the class (any more); the bits
/// are then cleared again.
template <class View>
ORCHARD_INLINE std::uint64_t confirm_claim(const View& h, std::uint32_t page_class, std::uint32_t segment,
                                           device_word<std::uint64_t>& word, std::uint64_t won) {
    // If the slab was retired before, the claim has acquired the change; if it was not, it cannot be retired now.
    // Acquire all the same: only the group that made this slab has acquired what the last user of its memory wrote.
    if (won != 0 && !descriptor::is_slab_of(h.descriptors[segment].template load<order::acquire>(), page_class) &&
        !simt::mutation::is(fault::claim_check)) {
        word.fetch_and<order::release>(~won);
        return 0;
    }
    return won;
}

/// Claims those of `bits` that are free in one bitmap word. Any lane, alone. The bits won.
/// Cost: one atomic, a load of the descriptor.
///
/// @tparam View  `heap_view`, or whatever else names bitmaps and descriptors
template <class View>
ORCHARD_INLINE std::uint64_t slab_claim(const View& h, std::uint32_t page_class, std::uint32_t segment,
                                        std::uint32_t word, std::uint64_t bits) {
    auto& w = h.bitmap(segment)[word];
    return confirm_claim(h, page_class, segment, w, bits & ~set_bits(w, bits));
}

/// Fills those words of the bitmap of `segment`, which the caller owns, with zeros that a slab of `page_class` needs
/// and that no slab has used before. All lanes of a converged group. Cost: a load; for new words one store each, shared
/// by the lanes.
ORCHARD_INLINE void clear_new_words(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                    std::uint32_t segment) {
    if (!h.clears_metadata) {
        return;
    }
    // A retired slab leaves its words zero, except that a late claimer may briefly set and clear its own bits: it does
    // so in words of its slab's class, and these are below `begin`.
    const std::uint32_t begin = h.cleared_words[segment].load<order::relaxed>();
    const std::uint32_t end = class_words(page_class);
    if (begin >= end) {
        return;
    }
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    ORCHARD_NO_UNROLL
    for (std::uint32_t w = begin + static_cast<std::uint32_t>(simt::rank_in(mask)); w < end; w += width) {
        h.bitmap(segment)[w].store<order::relaxed>(0);
    }
    simt::sync(mask);
    if (is_leader(mask)) {
        h.cleared_words[segment].store<order::relaxed>(end);
    }
}

/// Makes `segment`, which the caller owns, the slab at an index of the class's table that the caller has reserved
/// (`growing_entry`). Any lane, alone.
ORCHARD_INLINE void slab_publish(const heap_view& h, std::uint32_t page_class, std::uint32_t index,
                                 std::uint32_t segment) {
    auto& d = h.descriptors[segment];
    // Before the table's entry, which releases it. Only the owner of a segment writes its descriptor.
    h.records[segment].slab_index.set(index);
    d.store<order::release>(
        descriptor::next(d.load<order::relaxed>(), segment_kind::slab, page_class, page_reciprocal(page_class)));
    h.table(page_class)[index].store<order::release>(segment + 1);
    h.state->slabs[page_class].spread.raise<order::relaxed>(index + 1);
    h.add(counter::slabs_published, 1);
}

/// The retiring of a slab, in the lane's memory while its phases go on. The group is converged.
struct slab_retiring {
    const heap_view& h;
    lane_mask mask;
    std::uint32_t page_class;
    std::uint32_t segment;
    bool still = false;  ///< a slab of the class, once its pages are all the group's
};

/// Claims every page of a slab, if all are free; all lanes of a converged group. On failure nothing has changed.
inline ORCHARD_NOINLINE bool slab_claim_all(const slab_retiring& r) {
    const lane_mask mask = r.mask;
    const std::uint32_t page_class = r.page_class;
    const std::uint32_t words = class_words(page_class);
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    auto* bitmap = r.h.bitmap(r.segment);
    std::uint32_t end = 0;   // words [0, end) were tried, by all lanes
    std::uint32_t mine = 0;  // how many of this lane's are claimed: they are the first ones
    bool all = true;
    ORCHARD_NO_UNROLL
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
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = 0; i < mine; ++i) {
        const std::uint32_t word = i * width + rank;
        bitmap[word].fetch_and<order::release>(~class_word_mask(page_class, word));
    }
    return false;
}

/// Says that an index of the class's table is empty again: the next slab of the class goes there. One lane.
inline ORCHARD_NOINLINE void free_place(const heap_view& h, std::uint32_t page_class, std::uint32_t index) {
    auto& head = h.state->slabs[page_class];
    head.high_water.lower<order::relaxed>(std::uint64_t{index} << shape_of(page_class).log_pages());
    std::uint32_t end = index + 1;
    head.spread.compare_exchange<order::relaxed>(end, index);
}

/// Empties the index of a slab whose pages are all the group's. False: its publisher is about to put it there (it was
/// found by an entry that is older); then it has to stay. All lanes of a converged group.
inline ORCHARD_NOINLINE bool slab_leaves_table(const slab_retiring& r) {
    std::uint32_t left = 0;
    if (is_leader(r.mask)) {
        // Written before the descriptor that the leader has acquired.
        const std::uint32_t index = r.h.records[r.segment].slab_index.get();
        std::uint32_t entry = r.segment + 1;
        if (r.h.table(r.page_class)[index].compare_exchange<order::relaxed>(entry, 0)) {
            left = 1;
            free_place(r.h, r.page_class, index);
        }
    }
    return from_leader(r.mask, left) != 0;
}

/// After `slab_claim_all`: ends the slab, whose pages are all the group's; `r.still` is false where it was
/// another incarnation, until a moment ago, whose pages these are. All lanes of a converged group.
inline ORCHARD_NOINLINE void slab_end(const slab_retiring& r) {
    const lane_mask mask = r.mask;
    const auto end_descriptor = [&] {
        if (r.still && is_leader(mask)) {
            auto& d = r.h.descriptors[r.segment];
            d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::none, 0, 0));
        }
    };
    if (!simt::mutation::is(fault::retire_order)) {
        end_descriptor();
    }
    simt::sync(mask);
    ORCHARD_NO_UNROLL
    for (auto word = static_cast<std::uint32_t>(simt::rank_in(mask)); word < class_words(r.page_class);
         word += static_cast<std::uint32_t>(simt::popcount(mask))) {
        // Releases the change of descriptor to all lanes that claim a bit from here on. AND, not a store: a latecomer
        // may hold bits beyond the pages for a moment.
        r.h.bitmap(r.segment)[word].fetch_and<order::release>(~class_word_mask(r.page_class, word));
    }
    simt::sync(mask);
    if (simt::mutation::is(fault::retire_order)) {
        end_descriptor();
    }
    if (r.still && is_leader(mask)) {
        r.h.add(counter::slabs_retired, 1);
    }
}

/// Whether the segment is a slab of the class. All lanes of a converged group.
inline ORCHARD_NOINLINE bool is_slab(const slab_retiring& r) {
    const std::uint64_t d = from_leader(r.mask, r.h.descriptors[r.segment].load<order::acquire>());
    return descriptor::is_slab_of(d, r.page_class);
}

/// Ends a slab that has no page in use; all lanes of a converged group. True: the caller owns the segment, whose
/// bitmap is clear. False: it was no slab, or a page of it is in use.
/// Cost: one atomic and one store for each 64 pages, over the lanes of the group.
inline ORCHARD_FN bool slab_retire(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                   std::uint32_t segment) {
    slab_retiring r{h, mask, page_class, segment};
    if (!is_slab(r) || !slab_claim_all(r)) {
        return false;
    }
    r.still = is_slab(r) && slab_leaves_table(r);
    slab_end(r);
    return r.still;
}

/// A page that was found, or why there is none.
struct found_page {
    static constexpr std::uint32_t none = 0xffffffffu;

    std::uint32_t segment = 0;  ///< without a page: the `failure_reason`
    std::uint32_t page = none;
};

ORCHARD_INLINE found_page no_page(failure_reason why) { return {static_cast<std::uint32_t>(why), found_page::none}; }

}  // namespace orchard::device
