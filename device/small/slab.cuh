// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A slab: a segment divided into pages of one class, with a bitmap (1 = taken).
///
/// Claiming and retiring follow one order, so that no lock is needed:
///
/// - A claim ORs bits into the bitmap, keeps those that were 0, and *then* checks whether the descriptor still says
///   "slab of this class". If not, it clears its bits again.
/// - Retiring claims every page, *then* changes the descriptor, and *then* clears the bitmap.
///
/// If a claim follows the clearing of a retired slab, its atomic acquires the changed descriptor, so that the check
/// fails. If the claim precedes the retirement, the bits that it set keep the slab from being retired. Between the two,
/// no bit is free. So no claim on a retired slab succeeds.

#include "device/group/bits.cuh"
#include "device/heap_state.cuh"
#include "device/small/fill_sample.cuh"

namespace orchard::device {

/// Returns the `n` lowest ones of `bits`, or all ones if there are fewer.
ORCHARD_INLINE std::uint64_t lowest_ones(std::uint64_t bits, std::uint32_t n) {
    if (static_cast<std::uint32_t>(simt::popcount(bits)) <= n) {
        return bits;
    }
    return bits & ((std::uint64_t{1} << nth_one(bits, static_cast<int>(n))) - 1);
}

/// Returns `n` ones of `bits`, or all ones if there are fewer. They are taken upwards from bit `start`, and from bit 0
/// after the highest.
ORCHARD_INLINE std::uint64_t ones_from(std::uint64_t bits, std::uint32_t n, std::uint32_t start) {
    const std::uint64_t above = bits & ~std::uint64_t{0} << start;
    const std::uint64_t first = lowest_ones(above, n);
    return first | lowest_ones(bits & ~above, n - static_cast<std::uint32_t>(simt::popcount(first)));
}

/// Sets `bits` of a bitmap word and returns the word's old value. Bits that were 0 are the caller's, provisionally:
/// they are a claim only after `confirm_claim`.
ORCHARD_INLINE std::uint64_t set_bits(device_word<std::uint64_t>& word, std::uint64_t bits) {
    // Acquires the frees of the pages' last owners (`free_page`), and the change of descriptor if the slab was retired
    // (`slab_end`); both release with the AND that clears the bits.
    simt::mutation::weaken_next(fault::claim_acquire);
    return word.fetch_or<order::acquire>(bits);
}

/// Confirms a claim after `set_bits`. Returns `won` if the segment is a slab of the class. Otherwise clears these bits
/// again and returns 0.
template <class View>
ORCHARD_INLINE std::uint64_t confirm_claim(const View& h, std::uint32_t page_class, std::uint32_t segment,
                                           device_word<std::uint64_t>& word, std::uint64_t won) {
    // If the slab was retired earlier, the claim acquired the changed descriptor; if not, it cannot be retired now. The
    // load acquires nevertheless (pairs with `slab_publish`): only the group that made this slab acquired the writes of
    // the last user of its memory.
    if (won != 0 && !descriptor::is_slab_of(h.descriptors[segment].template load<order::acquire>(), page_class) &&
        !simt::mutation::is(fault::claim_check)) {
        word.fetch_and<order::release>(~won);
        return 0;
    }
    return won;
}

/// Claims those of `bits` that are free in one bitmap word, and returns the bits claimed. One lane calls it alone.
/// Cost: one atomic, a load of the descriptor.
///
/// @param segment,word  the slab's segment, and the word of its bitmap
/// @tparam View  `heap_view`, or another type with `bitmap` and `descriptors`
template <class View>
ORCHARD_INLINE std::uint64_t slab_claim(const View& h, std::uint32_t page_class, std::uint32_t segment,
                                        std::uint32_t word, std::uint64_t bits) {
    auto& w = h.bitmap(segment)[word];
    return confirm_claim(h, page_class, segment, w, bits & ~set_bits(w, bits));
}

/// Zeroes the bitmap words of `segment`, which the caller owns, that a slab of `page_class` needs and no earlier slab
/// has cleared. All lanes of a converged group call it. Cost: a load; one store for each new word, divided among the
/// lanes.
ORCHARD_INLINE void clear_new_words(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                    std::uint32_t segment) {
    if (!h.clears_metadata) {
        return;
    }
    // A retired slab leaves its words zero, except that a late claimer may briefly set and clear its own bits. These
    // bits lie in words of the claimer's class, which are below `begin`.
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

/// Makes `segment`, which the caller owns, the slab at `index` of the class's table, which the caller has reserved
/// (`growing_entry`). One lane calls it alone.
ORCHARD_INLINE void slab_publish(const heap_view& h, std::uint32_t page_class, std::uint32_t index,
                                 std::uint32_t segment) {
    auto& d = h.descriptors[segment];
    // Written before the stores below release it. Only the owner of a segment writes its descriptor, so that the load
    // can be relaxed. The descriptor's release pairs with `confirm_claim` and `is_slab`, the entry's with
    // `reserve_index` and `await_slab`.
    h.records[segment].slab_index.set(index);
    d.store<order::release>(
        descriptor::next(d.load<order::relaxed>(), segment_kind::slab, page_class, page_reciprocal(page_class)));
    h.table(page_class)[index].store<order::release>(segment + 1);
    h.state->slabs[page_class].spread.raise<order::relaxed>(index + 1);
    h.add(counter::slabs_published, 1);
}

/// The state of a retirement, kept in the lane's local memory between its phases. The group is converged.
struct slab_retiring {
    const heap_view& h;
    lane_mask mask;
    std::uint32_t page_class;
    std::uint32_t segment;
    bool still = false;  ///< still a slab of the class, after the group has claimed all its pages
};

/// Claims every page of a slab and returns true if all are free; otherwise returns false and undoes its claims. All
/// lanes of a converged group call it.
inline ORCHARD_NOINLINE bool slab_claim_all(const slab_retiring& r) {
    const lane_mask mask = r.mask;
    const std::uint32_t page_class = r.page_class;
    const std::uint32_t words = class_words(page_class);
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    auto* bitmap = r.h.bitmap(r.segment);
    std::uint32_t end = 0;   // all lanes together have tried words [0, end)
    std::uint32_t mine = 0;  // words that this lane has claimed: the first of those it tried
    bool all = true;
    ORCHARD_NO_UNROLL
    while (all && end < words) {
        const std::uint32_t word = end + rank;
        bool won = true;
        if (word < words) {
            std::uint64_t expected = 0;
            // Acquires the frees of the pages' last owners (`free_page`).
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
        // Releases what this lane acquired, to the next lane that claims these pages.
        bitmap[word].fetch_and<order::release>(~class_word_mask(page_class, word));
    }
    return false;
}

/// Marks an index of the class's table as empty, so that the next slab of the class goes there. One lane calls it
/// alone.
inline ORCHARD_NOINLINE void free_place(const heap_view& h, std::uint32_t page_class, std::uint32_t index) {
    auto& head = h.state->slabs[page_class];
    head.high_water.lower<order::relaxed>(std::uint64_t{index} << shape_of(page_class).log_pages());
    std::uint32_t end = index + 1;
    head.spread.compare_exchange<order::relaxed>(end, index);
}

/// Removes a slab, whose pages the group has claimed, from the class's table. Returns false if the table does not hold
/// it: the group found the segment by an outdated entry, and its publisher has not stored the new entry yet. The slab
/// must then stay. All lanes of a converged group call it.
inline ORCHARD_NOINLINE bool slab_leaves_table(const slab_retiring& r) {
    std::uint32_t left = 0;
    if (is_leader(r.mask)) {
        // A plain read: `slab_publish` wrote it before the descriptor that the leader has acquired.
        const std::uint32_t index = r.h.records[r.segment].slab_index.get();
        std::uint32_t entry = r.segment + 1;
        if (r.h.table(r.page_class)[index].compare_exchange<order::relaxed>(entry, 0) ||
            simt::mutation::is(fault::entry_swap)) {
            left = 1;
            free_place(r.h, r.page_class, index);
        }
    }
    return from_leader(r.mask, left) != 0;
}

/// Ends a slab after `slab_claim_all`: changes the descriptor if `r.still`, and clears the bitmap. If `r.still` is
/// false, the segment became another slab before its pages were claimed, and only the claims are undone. All lanes of a
/// converged group call it.
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
        // Releases the changed descriptor to all later claims (pairs with `set_bits`). An AND, not a store: a late
        // claimer may briefly hold bits beyond the last page.
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

/// Returns whether the segment is a slab of the class. All lanes of a converged group call it.
inline ORCHARD_NOINLINE bool is_slab(const slab_retiring& r) {
    const std::uint64_t d = from_leader(r.mask, r.h.descriptors[r.segment].load<order::acquire>());
    return descriptor::is_slab_of(d, r.page_class);
}

/// Retires a slab if no page of it is in use. Returns true if it did: the caller then owns the segment, whose bitmap is
/// clear. Returns false if the segment is no slab of the class or a page is in use. All lanes of a converged group call
/// it. Cost: two atomics for each 64 pages, divided among the lanes.
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

/// A page, or the reason why none was found.
struct found_page {
    static constexpr std::uint32_t none = 0xffffffffu;

    std::uint32_t segment = 0;  ///< if there is no page: the `failure_reason`
    std::uint32_t page = none;
};

ORCHARD_INLINE found_page no_page(failure_reason why) { return {static_cast<std::uint32_t>(why), found_page::none}; }

}  // namespace orchard::device
