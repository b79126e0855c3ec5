// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A lane's hint: the page at which its search for a page begins.
///
/// The slabs of a class, in the order of the class's table, form one long sequence of pages. Lane l of warp w begins at
/// page 32 w + l of this sequence. The hint is a starting point and no claim: the bitmap decides which lane gets a
/// page. If threads free what they allocate, warps do not collide and no word is contended. A page then costs one load
/// (table), one atomic (32 lanes share half a bitmap word) and one check (descriptor), and a warp keeps no state.
///
/// If few lanes of a warp ask for the class, the sequence is shorter than the hints of all warps. Hints beyond its end
/// are then spread over it by the golden ratio, which separates neighbouring warps and loads all words equally (D.
/// Knuth, The Art of Computer Programming 3, section 6.4: multiplicative hashing).
///
///     pages of a class     | slab 0                  | slab 1                  |
///     units of 32 pages    |  0  |  1  | ... |  r  | |  0  |  1  | ... |  r  | |    r: fewer than 32 pages, if any
///     hint of warp            0     1    ...   n-1      n    n+1   ...
///
/// Source: Orchard's own.

#include "device/state/slab.cuh"

namespace orchard::device {

/// Returns the smallest class whose pages hold `bytes` at a multiple of `alignment`, a power of two; `chunk_class` if
/// no class does. A slab begins at a multiple of 2 MiB, so that all of its pages are aligned if the page size is a
/// multiple of `alignment`. Example: 80 B aligned to 64 B try the classes of 80, 96 and 112 B, and get a page of 128 B.
inline ORCHARD_FN std::uint32_t class_of_aligned(std::uint64_t alignment, std::uint64_t bytes) {
    if (bytes > largest_page_bytes || alignment > largest_page_bytes) {
        return chunk_class;
    }
    std::uint32_t page_class = class_of(static_cast<std::uint32_t>(bytes > alignment ? bytes : alignment));
    while (class_bytes(page_class) % alignment != 0 && !simt::mutation::is(fault::class_alignment)) {
        ++page_class;  // ends at the next power of two
    }
    return page_class;
}

/// The position of a lane's hint. A unit is 32 page bits: half a bitmap word.
struct page_hint {
    std::uint32_t index;   ///< the slab's index in the class's table
    std::uint32_t unit;    ///< the unit in that slab's bitmap
    std::uint32_t bit;     ///< the lane's page in the unit
    lane_mask beside;      ///< the lanes of the warp whose hints lie in the same unit
    std::uint32_t number;  ///< the unit's number in the sequence of all hints
};

/// Returns the hint of a lane. Slabs of the largest classes have fewer than 32 pages; a warp's hints then lie in
/// several slabs. No memory access, no division.
///
/// Pages of 80 B = 5 * 2^4 B: a segment has 26,214 of them, that is 819 units and 6 pages, and 2^12 parts of 32 * 2^4
/// B, of which a unit covers five. Warp 818 begins at part 4,090: slab 0, unit 818. Warp 819 begins at part 4,095: slab
/// 0, unit 819, where only 6 lanes have a page. Warp 820 begins at part 4,100: slab 1, unit 0.
///
/// Pages of 512 KiB: four in a slab. Lane 13 of warp 2 has its hint in slab 2 * 8 + 13 / 4 = 19, at page 13 % 4 = 1.
ORCHARD_INLINE page_hint hint_of(const class_shape& shape, std::uint32_t warp, std::uint32_t lane) {
    constexpr std::uint32_t log_unit = 5;
    static_assert(1u << log_unit == simt::warp_size);
    const std::uint32_t log_least_pages = shape.log_least_pages();
    if (log_least_pages >= log_unit) {
        // A page of this class is `factor` * 2^`shift` bytes. A segment has 2^`log_parts` parts, each the size of 32
        // pages of 2^`shift` bytes; a unit covers `factor` parts.
        const std::uint32_t log_parts = static_cast<std::uint32_t>(segment_shift) - log_unit - shape.shift;
        const std::uint32_t part = warp * shape.factor;
        return {part >> log_parts, shape.divide(part & ((1u << log_parts) - 1)), lane, ~lane_mask{0}, warp};
    }
    // 16, 8 or 4 lanes share a slab: the number of pages of the largest class with this `shift`. Slabs of the three
    // smaller classes may have a few pages more, which no hint names and which searches find.
    const std::uint32_t lanes = 1u << log_least_pages;
    const std::uint32_t index = (warp << (log_unit - log_least_pages)) | lane >> log_least_pages;
    return {index, 0, lane & (lanes - 1), ((lane_mask{1} << lanes) - 1) << (lane & ~(lanes - 1)), index};
}

/// Returns a position for a hint beyond the end of the sequence: one of the `entries` indices, and a unit of that slab.
/// No memory access. Hint number 1 among 3 slabs of 819 units: 0.61803 * 3 = 1.85410 is slab 1, and in it unit 699,
/// since 0.85410 * 819 = 699.5.
ORCHARD_INLINE page_hint spread_hint(const page_hint& hint, std::uint32_t entries, std::uint32_t pages) {
    // A fixed-point product: its integer part (the high 32 bits) is the index, its fraction selects the unit in the
    // slab.
    const std::uint64_t product = std::uint64_t{hint.number * golden_ratio} * entries;
    const std::uint32_t units = pages >= 32 ? pages / 32 : 1;
    const std::uint64_t unit = std::uint64_t{static_cast<std::uint32_t>(product)} * units;
    return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(unit >> 32), hint.bit, hint.beside,
            hint.number};
}

/// The pages that a leader has claimed for the lanes that share its unit. Each lane gets its own bit of `won`; lanes
/// whose bit is missing there share `spare` by rank (`try_hint`).
struct hint_claim {
    static constexpr std::uint32_t nothing = 0xffffffffu;
    static constexpr std::uint32_t closing = 0xfffffffeu;

    std::uint32_t segment = nothing;  ///< the slab's segment; `closing` if the heap is being closed
    std::uint32_t unit = 0;           ///< the unit in the slab's bitmap
    std::uint32_t won = 0;            ///< claimed pages of the unit, one bit for each lane's own hint
    std::uint64_t spare = 0;          ///< further claimed pages of that word, for lanes whose own page was taken
};

/// Claims the pages `wanted` of a unit of a slab, and returns what it got. For pages that are taken, claims other pages
/// of the same bitmap word, from bit `start` upwards; callers use different `start` bits, so that groups at one word do
/// not compete for the same pages. One lane calls it alone. Cost: one atomic, up to four if pages are taken; a load. No
/// load of the word precedes the first OR: its result says which bits were free, so that a hit costs one round trip.
///
///     bitmap word    63 ...... 32 31 ....... 0      `wanted` are pages of one half,
///                    | odd unit  | even unit |      spare pages come from both
ORCHARD_INLINE hint_claim claim_unit(const heap_view& h, std::uint32_t page_class, std::uint32_t pages,
                                     std::uint32_t segment, std::uint32_t unit, lane_mask wanted, std::uint32_t start) {
    constexpr int max_attempts = 3;
    hint_claim claim;
    claim.segment = segment;
    claim.unit = unit;
    auto& word = h.bitmap(segment)[unit / 2];
    const std::uint32_t from = unit % 2 * 32;
    const std::uint32_t left = pages - unit * 32;  // pages of the slab from this unit on; at least one
    // In the last unit of a slab, lanes beyond the last page have no page of their own and count as missing.
    const std::uint64_t bits = std::uint64_t{left < 32 ? wanted & ((1u << left) - 1) : wanted} << from;
    std::uint64_t old = set_bits(word, bits);
    const std::uint64_t won = bits & ~old;
    int missing = simt::popcount(wanted) - simt::popcount(won);
    std::uint64_t spare = 0;
    std::uint64_t taken = old | bits;
    ORCHARD_NO_UNROLL
    for (int attempt = 0; missing > 0 && attempt < max_attempts; ++attempt) {
        const std::uint32_t in_word = left + from;
        const std::uint64_t all = in_word < 64 ? (std::uint64_t{1} << in_word) - 1 : ~std::uint64_t{0};
        const std::uint64_t others = ~taken & all;
        if (others == 0) {
            break;
        }
        // Others may claim these pages at the same time, so that the OR may get fewer of them.
        const int beyond = simt::mutation::is(fault::spare_claim) ? 1 : 0;
        const std::uint64_t more = ones_from(others, static_cast<std::uint32_t>(missing + beyond), start);
        old = set_bits(word, more);
        spare |= more & ~old;
        missing -= simt::popcount(more & ~old);
        taken = old | more;
    }
    // One check for all bits: each of the ORs above acquired, and any bit won keeps the slab from being retired.
    const std::uint64_t mine = confirm_claim(h, page_class, segment, word, won | spare);
    claim.won = static_cast<std::uint32_t>((mine & won) >> from);
    claim.spare = mine & spare;
    return claim;
}

/// Claims the pages `wanted` at a hint, and returns what it got; an empty claim if there is no slab at it; `closing` if
/// the heap is being closed. One lane calls it alone. Cost on a hit: three independent loads, one atomic, a load; one
/// more load beyond the end of the sequence. `spread` is needed only there, but is read in any case: a load that waits
/// for the entry would cost a round trip more.
ORCHARD_INLINE hint_claim claim_hint(const heap_view& h, std::uint32_t page_class, const class_shape& shape,
                                     const page_hint& hint, lane_mask wanted) {
    const auto* table = h.table(page_class);
    const bool closing = is_closing(h);
    // An entry is only a hint, here and below, so that an old one does. The claim acquires, and checks the descriptor
    // afterwards. Measured on an H200 with 1,000,000 threads of 16 to 512 B: 61 us, with relaxed loads of the entries
    // 67 us. For `spread` it makes no difference.
    const std::uint32_t entries = h.state->slabs[page_class].spread.load<order::relaxed>();
    std::uint32_t entry = hint.index < h.max_slabs ? table[hint.index].load_cached() : 0;
    if (closing) {
        hint_claim none;
        none.segment = hint_claim::closing;
        return none;
    }
    const std::uint32_t pages = shape.pages();
    std::uint32_t unit = hint.unit;
    // An index below `spread` may be empty as well: its slab was retired, or is being created.
    if (!is_slab_entry(entry)) {
        const page_hint other = spread_hint(hint, entries, pages);
        entry = entries != 0 ? table[other.index].load_cached() : 0;
        if (!is_slab_entry(entry)) {
            return {};
        }
        unit = other.unit;
    }
    // The highest six bits of a product are a hash of the hint's number: a bit of the word, 0 to 63, for spare pages.
    return claim_unit(h, page_class, pages, entry - 1, unit, wanted, hint.number * 0x85ebca6bu >> 26);
}

}  // namespace orchard::device
