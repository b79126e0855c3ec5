// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A slab: a segment divided into pages of one class, with a bitmap (1 = taken). Bit b of word w stands for page 64 w +
/// b. The last word may have fewer than 64 pages (`class_word_mask`).
///
/// A group makes a segment that it owns a slab, and later any group may retire the slab and then owns the segment:
///
///                     slab_publish                    slab_retire
///                     ------------>                   ----------->
///     segment         owned by the    a slab          owned by the group
///                     group           of class c      that retired it
///     descriptor      no slab         slab, c         none
///     table entry     growing_entry   segment + 1     0
///     bit of a page   0, or claimed   1 = in use      0
///                     by the group
///
/// Claiming and retiring follow one order, so that no lock is needed:
///
///     claim                                      retirement
///     `set_bits`: OR, keeps the bits won         `is_slab`: a slab of the class?
///     `confirm_claim`: a slab of the class?      `slab_claim_all`: 0 -> all ones, by compare-and-swap, each word
///        if not: AND, clears these bits again    `is_slab` again, `slab_leaves_table`
///                                                `slab_end`: descriptor := none, barrier, AND that clears each word
///
/// If a claim follows the clearing of a retired slab, its atomic acquires the changed descriptor, so that the check
/// fails. If the claim precedes the retirement, the bits that it set keep the slab from being retired. Between the two,
/// no bit is free. So no claim on a retired slab succeeds. Either order reversed would give a page to two owners: a
/// claim that checked the descriptor before its OR could be overtaken by a whole retirement; a retirement that cleared
/// the bitmap before it changed the descriptor would let claims succeed in a segment that its next owner already uses.
///
/// A late claimer sets bits in a segment that is no longer a slab of its class, and clears them again. Free pages of
/// the next slab may look taken meanwhile, but no page in use ever looks free.

#include "device/group/bits.cuh"
#include "device/state/event_writer.cuh"
#include "device/state/fill_sample.cuh"
#include "device/state/heap_state.cuh"

namespace orchard::device {

/// Returns the `n` lowest ones of `bits`, or all ones if there are fewer: two ones of 10110 are 00110.
ORCHARD_INLINE std::uint64_t lowest_ones(std::uint64_t bits, std::uint32_t n) {
    if (static_cast<std::uint32_t>(simt::popcount(bits)) <= n) {
        return bits;
    }
    return bits & ((std::uint64_t{1} << nth_one(bits, static_cast<int>(n))) - 1);
}

/// Returns `n` ones of `bits`, or all ones if there are fewer. They are taken upwards from bit `start` < 64, and from
/// bit 0 after the highest: two ones of 01011 from bit 2 on are 01001.
ORCHARD_INLINE std::uint64_t ones_from(std::uint64_t bits, std::uint32_t n, std::uint32_t start) {
    const std::uint64_t above = bits & ~std::uint64_t{0} << start;
    const std::uint64_t first = lowest_ones(above, n);
    return first | lowest_ones(bits & ~above, n - static_cast<std::uint32_t>(simt::popcount(first)));
}

/// Sets `bits` of a bitmap word and returns the word's old value. Bits that were 0 are the caller's, provisionally:
/// they are a claim only after `confirm_claim`. One lane calls it alone. Cost: one atomic, whose result is awaited.
ORCHARD_INLINE std::uint64_t set_bits(device_word<std::uint64_t>& word, std::uint64_t bits) {
    // Acquires the frees of the pages' last owners (`free_page`), and the change of descriptor if the slab was retired
    // (`slab_end`); both release with the AND that clears the bits. Without it, the writes of the last owner could
    // arrive after those of the next one, and `confirm_claim` could read the descriptor from before the retirement.
    simt::mutation::weaken_next(fault::claim_acquire);
    return word.fetch_or<order::acquire>(bits);
}

/// Confirms a claim after `set_bits`. Returns `won` if the segment is a slab of the class. Otherwise clears these bits
/// again and returns 0. One lane calls it alone. Cost: a load of the descriptor if `won` is not 0; one atomic more if
/// the claim is undone.
template <class View>
ORCHARD_INLINE std::uint64_t confirm_claim(const View& h, std::uint32_t page_class, std::uint32_t segment,
                                           device_word<std::uint64_t>& word, std::uint64_t won) {
    // If the slab was retired earlier, the claim acquired the changed descriptor; if not, it cannot be retired now. The
    // load acquires nevertheless (pairs with `slab_publish`): only the group that made this slab acquired the writes of
    // the last user of its memory. That user may have had the memory in another class or in a chunk, so that its frees
    // released other words than the one that this claim acquired.
    if (won != 0 && !descriptor::is_slab_of(h.descriptor(segment).template load<order::acquire>(), page_class) &&
        !simt::mutation::is(fault::claim_check)) {
        word.fetch_and<order::release>(~won);
        return 0;
    }
    return won;
}

/// Claims those of `bits` that are free in one bitmap word, and returns the bits claimed; 0 also if the segment is no
/// slab of the class. One lane calls it alone. Cost: one atomic, a load of the descriptor.
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
/// has cleared. All lanes of a converged group call it, after a barrier behind the acquire of the segment. Cost: a
/// load; one store for each new word, divided among the lanes.
///
/// `cleared_words` counts the words, from word 0 on, that a slab has cleared. A slab of 80 B pages needs 410 words, one
/// of 16 B pages 2,048: if the segment becomes the one and later the other, words 410 to 2,047 are cleared then.
ORCHARD_INLINE void clear_new_words(const heap_view& h, lane_mask mask, std::uint32_t page_class,
                                    std::uint32_t segment) {
    if (!h.clears_metadata) {
        return;
    }
    // A retired slab leaves its words zero, except that a late claimer may briefly set and clear its own bits. These
    // bits lie in words of the claimer's class, which are below `begin`. All accesses are relaxed: the acquire of the
    // segment orders them after the last owner's, and the release of `slab_publish` orders them before all claims.
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
    simt::sync(mask);  // the release of the lane that publishes the slab later covers the stores of all lanes
    if (is_leader(mask)) {
        h.cleared_words[segment].store<order::relaxed>(end);
    }
}

/// Makes `segment`, which the caller owns, the slab at `index` of the class's table, which the caller has reserved
/// (`growing_entry`). One lane calls it alone, with the words of the class cleared. Cost: a load, three stores, two
/// atomics whose results are not used.
///
/// From the store of the entry on, other groups find the slab. The descriptor is therefore stored before the entry: a
/// claim through the new entry would otherwise fail its check and be undone. Between the two stores a group can find
/// the segment only by an outdated entry of an earlier slab (`slab_leaves_table`).
ORCHARD_INLINE void slab_publish(const heap_view& h, std::uint32_t page_class, std::uint32_t index,
                                 std::uint32_t segment) {
    auto& d = h.descriptor(segment);
    // Written before the stores below release it. Only the owner of a segment writes its descriptor, so that the load
    // can be relaxed. The descriptor's release pairs with `confirm_claim` and `is_slab`, the entry's with
    // `reserve_index` and `look_at_awaited`.
    h.records[segment].slab_index.set(index);
    d.store<order::release>(
        descriptor::next(d.load<order::relaxed>(), segment_kind::slab, page_class, page_reciprocal(page_class)));
    h.table(page_class)[index].store<order::release>(segment + 1);
    // Relaxed: `spread` only says where searches look, and an entry below it may be empty at any time.
    h.state->slabs[page_class].spread.raise<order::relaxed>(index + 1);
    h.add(counter::slabs_published, 1);
    if (h.reports_notes()) {
        note_event(h, device_event::slab_opened, segment, page_class);
    }
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
/// lanes of a converged group call it. Cost: one atomic for each word up to the first round with a page in use; as many
/// again to undo. A full warp claims a slab of 1 KiB pages (32 words) in one round, one of 16 B pages in 64 rounds. A
/// compare-and-swap from 0, unlike an OR, sets no bit of a word with a page in use, so that such a word needs no undo.
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
            // Acquires the frees of the pages' last owners (`free_page`): the segment's next user comes after them.
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

/// Marks an index of the class's table, whose entry the caller has set to 0, as empty, so that the next slab of the
/// class goes there. One lane calls it alone. Cost: one atomic without a used result, one compare-and-swap.
///
/// The high-water mark falls to the first position of the index: the next reservation then finds the index empty and
/// creates a slab there. `spread` falls by one if the slab was the last one, but not past an index that was emptied
/// earlier, which is why retiring goes from the highest index downwards (`choose_entry`). Both words are hints, and
/// relaxed: a wrong value makes a search look at empty indices, or overlook slabs until it scans.
inline ORCHARD_NOINLINE void free_place(const heap_view& h, std::uint32_t page_class, std::uint32_t index) {
    auto& head = h.state->slabs[page_class];
    head.high_water.lower<order::relaxed>(std::uint64_t{index} * class_pages(page_class));
    std::uint32_t end = index + 1;
    head.spread.compare_exchange<order::relaxed>(end, index);
}

/// Removes a slab, whose pages the group has claimed, from the class's table. Returns false if the table does not hold
/// it: the group found the segment by an outdated entry, and its publisher has not stored the new entry yet. The slab
/// must then stay. All lanes of a converged group call it.
///
/// The case: a group reads the entry of a slab and is delayed. Meanwhile another group retires that slab, and the
/// segment becomes a slab of the same class again, at another index. The descriptor is stored, the entry is not. The
/// delayed group finds a slab of the class without a page in use. If it retired this slab, the publisher would store an
/// entry for a segment that is no slab. The compare-and-swap prevents that: the entry at the slab's index is still
/// `growing_entry`. It is relaxed, since the descriptor and the bitmap carry the order.
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
/// false, the segment was no slab of the class any more when its pages were claimed, or the table did not hold it; only
/// the claims are then undone. All lanes of a converged group call it.
inline ORCHARD_NOINLINE void slab_end(const slab_retiring& r) {
    const lane_mask mask = r.mask;
    const auto end_descriptor = [&] {
        if (r.still && is_leader(mask)) {
            auto& d = r.h.descriptor(r.segment);
            d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::none, 0, 0));
        }
    };
    if (!simt::mutation::is(fault::retire_order)) {
        end_descriptor();
    }
    simt::sync(mask);  // every lane's release below covers the leader's store of the descriptor
    ORCHARD_NO_UNROLL
    for (auto word = static_cast<std::uint32_t>(simt::rank_in(mask)); word < class_words(r.page_class);
         word += static_cast<std::uint32_t>(simt::popcount(mask))) {
        // Releases the changed descriptor to all later claims (pairs with `set_bits`). An AND, not a store: a late
        // claimer may briefly hold bits beyond the last page.
        r.h.bitmap(r.segment)[word].fetch_and<order::release>(~class_word_mask(r.page_class, word));
    }
    simt::sync(mask);  // the group may pass the segment on only when all its words are 0
    if (simt::mutation::is(fault::retire_order)) {
        end_descriptor();
    }
    if (r.still && is_leader(mask)) {
        r.h.add(counter::slabs_retired, 1);
    }
}

/// Returns whether the segment is a slab of the class. All lanes of a converged group call it. Each lane loads with
/// acquire (pairs with `slab_publish`), so that the leader may read the record's `slab_index` afterwards.
inline ORCHARD_NOINLINE bool is_slab(const slab_retiring& r) {
    const std::uint64_t d = from_leader(r.mask, r.h.descriptor(r.segment).load<order::acquire>());
    return descriptor::is_slab_of(d, r.page_class);
}

/// Retires a slab if no page of it is in use. Returns true if it did: the caller then owns the segment, whose bitmap is
/// clear. Returns false if the segment is no slab of the class or a page is in use. All lanes of a converged group call
/// it. Cost: two atomics for each 64 pages, divided among the lanes.
///
/// The descriptor is checked twice. The first check spares the claims if the entry that led here is outdated. Before
/// the claims succeed, another group may retire the slab, and the segment may become a slab of another class, a chunk,
/// or nothing. The second check therefore comes after the claims: if the segment is a slab of the class then, no other
/// group can retire it while these claims stand.
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

/// A page of a slab, or none. Its address is that of the segment plus `page` times the bytes of the class.
struct found_page {
    static constexpr std::uint32_t none = 0xffffffffu;

    /// The slab's segment. If there is no page: where the hint led (`hint_claim::segment`).
    std::uint32_t segment = 0;
    std::uint32_t page = none;  ///< number of the page in the slab
};

}  // namespace orchard::device
