// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The first place where a lane looks for a page: its home.
///
/// The slabs of a class, in the order of the class's table, are one long sequence of pages. Lane l of warp w begins at
/// page 32 w + l of it. That is a starting point and no claim: the bitmap decides who gets a page. But where threads
/// allocate and free alike, warps do not meet each other, no word is hot, and a page is found with one load (table),
/// one atomic (32 lanes share half a bitmap word) and one check (descriptor), without any state of the warp's own.
/// Source: Orchard's own.

#include "device/grants.cuh"

namespace orchard::device {

/// Where a lane is at home.
struct page_home {
    std::uint32_t place;  ///< in the class's table
    std::uint32_t unit;   ///< which 32 pages of the slab
    std::uint32_t bit;    ///< which of these
    lane_mask beside;     ///< the lanes of the warp that share the unit
};

/// Slabs of the largest classes have fewer than 32 pages: the warp then has homes in several slabs. No memory access.
ORCHARD_INLINE page_home home_of(const class_shape& shape, std::uint32_t warp, std::uint32_t lane) {
    constexpr std::uint32_t least_shift_for_parts = 14;
    if (shape.shift < least_shift_for_parts) {
        // A unit is `factor` of the 2^(16 - shift) parts of a slab.
        const std::uint32_t part = warp * shape.factor;
        const std::uint32_t parts = 16 - shape.shift;
        return {part >> parts, shape.divide(part & ((1u << parts) - 1)), lane, ~lane_mask{0}};
    }
    const std::uint32_t log_lanes = 18 - shape.shift;  // 16, 8 or 4 lanes to a slab
    const std::uint32_t lanes = 1u << log_lanes;
    return {(warp << (shape.shift - 13)) | lane >> log_lanes, 0, lane & (lanes - 1),
            ((lane_mask{1} << lanes) - 1) << (lane & ~(lanes - 1))};
}

/// What a leader has claimed for the lanes that share its home.
struct home_claim {
    static constexpr std::uint32_t closing = 0xffffffffu;

    std::uint32_t segment = 0;  ///< or `closing`, where the heap is being closed
    std::uint32_t won = 0;      ///< pages of the unit, one a lane, at home
    std::uint64_t spare = 0;    ///< pages of the same bitmap word, for lanes whose own is taken
};

/// Claims the pages `wanted` of a unit, and for those that are taken others of the same bitmap word. Any lane, alone.
/// Cost on a hit: two loads side by side, one atomic, a load.
ORCHARD_INLINE home_claim claim_home(const heap_view& h, std::uint32_t page_class, const class_shape& shape,
                                     const page_home& home, lane_mask wanted) {
    home_claim claim;
    const auto* table = h.table(page_class);
    const bool closing = is_closing(h);
    // Relaxed, here and below: an entry is a hint. The claim acquires, and the descriptor is looked at after it.
    std::uint32_t entry = home.place < h.segments ? table[home.place].load<order::relaxed>() : 0;
    if (closing) {
        claim.segment = home_claim::closing;
        return claim;
    }
    if (!is_slab_entry(entry)) {
        const std::uint32_t count = h.state->slabs[page_class].count.load<order::relaxed>();
        entry = count != 0 ? table[home.place % count].load<order::relaxed>() : 0;
        if (!is_slab_entry(entry)) {
            return claim;
        }
    }
    claim.segment = entry - 1;
    auto& word = h.bitmap(claim.segment)[home.unit / 2];
    const std::uint32_t from = home.unit % 2 * 32;
    const std::uint32_t left = shape.pages() - home.unit * 32;  // at least one
    const std::uint64_t bits = std::uint64_t{left < 32 ? wanted & ((1u << left) - 1) : wanted} << from;
    const std::uint64_t old = set_bits(word, bits);
    const std::uint64_t won = bits & ~old;
    const int missing = simt::popcount(wanted) - simt::popcount(won);
    std::uint64_t spare = 0;
    if (missing != 0) {
        const std::uint64_t others = ~(old | bits) & class_word_mask(page_class, home.unit / 2);
        if (others != 0) {
            spare = lowest_ones(others, static_cast<std::uint32_t>(missing));
            spare &= ~set_bits(word, spare);
        }
    }
    const std::uint64_t all = confirm_claim(h, page_class, claim.segment, word, won | spare);
    claim.won = static_cast<std::uint32_t>((all & won) >> from);
    claim.spare = all & spare;
    return claim;
}

}  // namespace orchard::device
