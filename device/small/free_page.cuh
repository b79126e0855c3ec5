// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Freeing pages: from the address to the descriptor to the bit; lanes that hit one bitmap word clear it together.

#include "device/heap_state.cuh"

namespace orchard::device {

/// Where a pointer points in its segment's slab.
struct page_place {
    device_word<std::uint64_t>* word = nullptr;  ///< of the bitmap
    std::uint32_t bit = 0;
    bool exact = false;  ///< it is the first byte of a page
};

/// The place of `p`, which lies in the heap, in the slab that descriptor word `d` describes; anywhere in the heap's
/// bitmaps, and not exact, where it describes none. No memory access.
ORCHARD_INLINE page_place place_of(const heap_view& h, const void* p, std::uint64_t d) {
    const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - h.base);
    const auto segment = static_cast<std::uint32_t>(offset >> segment_shift);
    const page_at_offset at =
        find_page_at(static_cast<std::uint32_t>(offset) & (segment_bytes - 1), descriptor::extent(d));
    const bool slab = descriptor::kind(d) == segment_kind::slab || (d != 0 && simt::mutation::is(fault::free_check));
    return {&h.bitmap(segment)[at.page / 64], at.page % 64, at.exact && slab};
}

/// Whether `p` is a page that is allocated. One load.
inline ORCHARD_FN bool page_in_use(const heap_view& h, const void* p, std::uint64_t d) {
    const page_place at = place_of(h, p, d);
    return at.exact && (at.word->load<order::relaxed>() >> at.bit & 1) != 0;
}

/// The OR over the lanes of `peers` from this lane up; in the lowest lane of `peers`, over all of them. Each lane of
/// `here` calls it with peers of its own. All collectives are over `here`: those over parts of a warp take turns.
/// By pointer jumping: what lies up to `next` is in; it doubles each time.
ORCHARD_INLINE std::uint64_t or_of_peers(lane_mask here, lane_mask peers, std::uint64_t bits) {
    const int own = simt::lane_id();
    const lane_mask above = peers & ~lane_mask{1} << own;
    int next = above != 0 ? simt::lowest_bit(above) : own;
    while (simt::ballot(here, next != own) != 0) {
        const std::uint64_t theirs = simt::shuffle(here, bits, next);
        const int further = static_cast<int>(simt::shuffle(here, static_cast<std::uint32_t>(next), next));
        if (next != own) {
            bits |= theirs;
            next = further == next ? own : further;
        }
    }
    return bits;
}

/// The bits to clear of one bitmap word.
struct freed_bits {
    lane_mask peers = 0;     ///< the lanes whose pages they are
    std::uint64_t bits = 0;  ///< as the lowest of them knows
};

/// Brings those together whose keys, and so whose words, are alike: mostly all of them.
ORCHARD_INLINE freed_bits gather_bits(lane_mask here, std::uint64_t key, std::uint32_t bit) {
    const std::uint64_t own = std::uint64_t{1} << bit;
    if (simt::ballot(here, simt::shuffle(here, key, simt::leader_of(here)) != key) == 0) {
        return {here, std::uint64_t{simt::reduce_or(here, static_cast<std::uint32_t>(own >> 32))} << 32 |
                          simt::reduce_or(here, static_cast<std::uint32_t>(own))};
    }
    const lane_mask peers = simt::match(here, key);
    return {peers, or_of_peers(here, peers, own)};
}

/// Where a bit that was to be cleared was clear, or two lanes freed one page: whether this lane freed a page that was
/// allocated. Of several that free one page the lowest counts as right.
inline ORCHARD_NOINLINE bool was_right(lane_mask here, lane_mask peers, std::uint64_t bit, std::uint64_t old) {
    const std::uint64_t before = simt::shuffle(here, old, simt::leader_of(peers));
    const lane_mask same = peers & simt::match(here, bit);
    return (before & bit) != 0 && simt::leader_of(same) == simt::lane_id();
}

/// Frees pages. All lanes of a converged group; `d` is the descriptor word of this lane's pointer, 0 where it is
/// nothing of the heap's. Whether this lane's was a page that was allocated. Never waits.
/// Cost: one atomic for each bitmap word.
ORCHARD_INLINE bool free_page(const heap_view& h, lane_mask here, const void* p, std::uint64_t d) {
    const page_place at = place_of(h, p, d);
    // Lanes whose pointer is no page are each other's peers, and do nothing.
    const freed_bits freed = gather_bits(here, at.exact ? reinterpret_cast<std::uintptr_t>(at.word) : 0, at.bit);
    // What all lanes did to their pages is before their leaders' releases.
    if (!simt::mutation::is(fault::free_sync)) {
        simt::sync(here);
    }
    std::uint64_t old = 0;
    bool doubtful = false;
    if (at.exact && is_leader(freed.peers)) {
        simt::mutation::weaken_next(fault::free_release);
        old = at.word->fetch_and<order::release>(~freed.bits);
        doubtful = (old & freed.bits) != freed.bits || simt::popcount(freed.bits) != simt::popcount(freed.peers);
    }
    if (simt::ballot(here, doubtful) == 0) {
        return at.exact;
    }
    const bool right = was_right(here, freed.peers, std::uint64_t{1} << at.bit, old);
    return at.exact && right;
}

}  // namespace orchard::device
