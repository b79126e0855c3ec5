// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Frees pages: from the address to the descriptor to the bit. Lanes whose pages lie in one bitmap word clear it
/// together.

#include "device/heap_state.cuh"

namespace orchard::device {

/// The bit of a pointer in the bitmap of its segment.
struct page_place {
    device_word<std::uint64_t>* word = nullptr;  ///< of the bitmap
    std::uint32_t bit = 0;
    bool exact = false;  ///< the pointer is the first byte of a page
};

/// Returns the bit of `p`, which lies in the heap, if descriptor word `d` describes a slab. Otherwise returns an
/// arbitrary bit of the heap's bitmaps, with `exact` false. No memory access.
ORCHARD_INLINE page_place place_of(const heap_view& h, const void* p, std::uint64_t d) {
    const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - h.base);
    const auto segment = static_cast<std::uint32_t>(offset >> segment_shift);
    const page_at_offset at =
        find_page_at(static_cast<std::uint32_t>(offset) & (segment_bytes - 1), descriptor::extent(d));
    const bool slab = descriptor::kind(d) == segment_kind::slab || (d != 0 && simt::mutation::is(fault::free_check));
    return {&h.bitmap(segment)[at.page / 64], at.page % 64, at.exact && slab};
}

/// Returns whether `p` is a page in use. Cost: one load.
inline ORCHARD_FN bool page_in_use(const heap_view& h, const void* p, std::uint64_t d) {
    const page_place at = place_of(h, p, d);
    return at.exact && (at.word->load<order::relaxed>() >> at.bit & 1) != 0;
}

/// Returns, in the lowest lane of `peers`, the OR of `bits` over all lanes of `peers`; in another lane, over the peers
/// from that lane up. All lanes of `here` call it, each with its own peers. Collectives are over `here`, since
/// collectives over parts of a warp would be executed one after the other. By pointer jumping: `bits` covers the peers
/// from the lane up to before `next`, a distance that doubles in each round.
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

/// The bits of one bitmap word to be cleared.
struct freed_bits {
    lane_mask peers = 0;     ///< the lanes that free these pages
    std::uint64_t bits = 0;  ///< complete in the lowest of these lanes only
};

/// Groups the lanes by `key`, the address of their bitmap word, and combines their bits. Fast if all keys are equal,
/// which is the usual case.
ORCHARD_INLINE freed_bits gather_bits(lane_mask here, std::uint64_t key, std::uint32_t bit) {
    const std::uint64_t own = std::uint64_t{1} << bit;
    if (simt::ballot(here, simt::shuffle(here, key, simt::leader_of(here)) != key) == 0) {
        return {here, std::uint64_t{simt::reduce_or(here, static_cast<std::uint32_t>(own >> 32))} << 32 |
                          simt::reduce_or(here, static_cast<std::uint32_t>(own))};
    }
    const lane_mask peers = simt::match(here, key);
    return {peers, or_of_peers(here, peers, own)};
}

/// Returns whether this lane freed a page in use, after a bit to be cleared was clear already, or two lanes freed the
/// same page. If several lanes free the same page, only the lowest one counts as valid.
inline ORCHARD_NOINLINE bool was_right(lane_mask here, lane_mask peers, std::uint64_t bit, std::uint64_t old) {
    const std::uint64_t before = simt::shuffle(here, old, simt::leader_of(peers));
    const lane_mask same = peers & simt::match(here, bit);
    return (before & bit) != 0 && simt::leader_of(same) == simt::lane_id();
}

/// Frees pages, and returns whether this lane's pointer was a page in use. `d` is the descriptor word of the pointer's
/// segment, 0 if the pointer is not in the heap. All lanes of a converged group call it. It never waits. Cost: one
/// atomic for each bitmap word.
ORCHARD_INLINE bool free_page(const heap_view& h, lane_mask here, const void* p, std::uint64_t d) {
    const page_place at = place_of(h, p, d);
    // Lanes whose pointer is no page share the key 0, and do nothing.
    const freed_bits freed = gather_bits(here, at.exact ? reinterpret_cast<std::uintptr_t>(at.word) : 0, at.bit);
    // Orders all lanes' accesses to their pages before their leaders' releases, which pair with `set_bits`.
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
