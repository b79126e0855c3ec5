// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Frees pages: from the address to the descriptor to the bit. Lanes whose pages lie in one bitmap word clear it
/// together.
///
///     address --> segment, offset in it --> descriptor (slab? reciprocal of the page size) --> page --> word, bit
///
/// A free of a page in use needs no lock and no check afterwards: as long as the bit is 1, no group can retire the
/// slab, so that the descriptor which the free has read cannot change. An invalid free changes nothing if the
/// descriptor or the bit reveals it. If it races with the next use of the memory, it may free a page of another thread.

#include "device/state/heap_state.cuh"

namespace orchard::device {

/// The bit of a pointer in the bitmap of its segment.
struct page_place {
    device_word<std::uint64_t>* word = nullptr;  ///< of the bitmap
    std::uint32_t bit = 0;
    bool exact = false;  ///< the pointer is the first byte of a page
};

/// Returns the bit of `p`, which lies in the heap, if descriptor word `d` describes a slab. Otherwise returns an
/// arbitrary bit, with `exact` false, which the caller must not touch; `p` may then lie anywhere. No memory access: the
/// descriptor has the reciprocal of the page size.
ORCHARD_INLINE page_place place_of(const heap_view& h, const void* p, std::uint64_t d) {
    const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - h.base);
    const auto segment = static_cast<std::uint32_t>(offset >> segment_shift);
    const page_at_offset at =
        find_page_at(static_cast<std::uint32_t>(offset) & (segment_bytes - 1), descriptor::extent(d));
    const bool slab = descriptor::kind(d) == segment_kind::slab || (d != 0 && simt::mutation::is(fault::free_check));
    return {&h.bitmap(segment)[at.page / 64], at.page % 64, at.exact && slab};
}

/// Returns whether `p` is a page in use; a snapshot. `d` is the descriptor word of its segment. Cost: one load.
inline ORCHARD_FN bool page_in_use(const heap_view& h, const void* p, std::uint64_t d) {
    const page_place at = place_of(h, p, d);
    return at.exact && (at.word->load<order::relaxed>() >> at.bit & 1) != 0;
}

/// Returns, in the lowest lane of `peers`, the OR of `bits` over all lanes of `peers`; in another lane, over the peers
/// from that lane up. All lanes of `here` call it, each with its own peers. Collectives are over `here`, since
/// collectives over parts of a warp would be executed one after the other. By pointer jumping: `bits` covers the peers
/// from the lane up to before `next`, a distance that doubles in each round. A lane whose `next` is the lane itself is
/// done. Cost: at most five rounds of two shuffles and a ballot.
///
///     lane               1          4        5      9        1  4  5  9
///                        lanes that its `bits` cover         its `next`
///     at first           1          4        5      9        4  5  9  9
///     after round 1      1 4        4 5      5 9    9        5  9  5  9
///     after round 2      1 4 5 9    4 5 9    5 9    9        1  4  5  9
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

/// Groups the lanes by `key`, the address of their bitmap word, and combines their bits. All lanes of `here` call it.
/// Fast if all keys are equal, which is the usual case: a shuffle, a ballot and two reductions of 32 bits.
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
/// same page. If several lanes free the same page, only the lowest one counts as valid. All lanes of `here` call it;
/// `peers` have the same bitmap word, and the leader of peers passes the word's `old` value.
inline ORCHARD_NOINLINE bool was_right(lane_mask here, lane_mask peers, std::uint64_t bit, std::uint64_t old) {
    const std::uint64_t before = simt::shuffle(here, old, simt::leader_of(peers));
    const lane_mask same = peers & simt::match(here, bit);
    return (before & bit) != 0 && simt::leader_of(same) == simt::lane_id();
}

/// Frees pages, and returns whether this lane's pointer was a page in use. `d` is the descriptor word of the pointer's
/// segment, 0 if the pointer is not in the heap. All lanes of a converged group call it. It never waits. Cost: one
/// atomic for each bitmap word, whose result only serves to recognise invalid frees.
///
/// A lane gets false for each pointer that is no page in use: a block of a chunk, a free page, a page that a lower lane
/// frees at the same time, an address inside a page or outside the heap. The caller then tries `free_other`.
ORCHARD_INLINE bool free_page(const heap_view& h, lane_mask here, const void* p, std::uint64_t d) {
    const page_place at = place_of(h, p, d);
    // Lanes whose pointer is no page share the key 0, and do nothing.
    const freed_bits freed = gather_bits(here, at.exact ? reinterpret_cast<std::uintptr_t>(at.word) : 0, at.bit);
    // Orders all lanes' accesses to their pages before their leaders' releases, which pair with `set_bits`. Without
    // this barrier, the release would cover the leader's own accesses only: another lane's late write could arrive
    // after the first write of the page's next owner.
    if (!simt::mutation::is(fault::free_sync)) {
        simt::sync(here);
    }
    std::uint64_t old = 0;
    bool doubtful = false;
    if (at.exact && is_leader(freed.peers)) {
        simt::mutation::weaken_next(fault::free_release);
        // Release: pairs with the acquires in `set_bits` and `slab_claim_all`.
        old = at.word->fetch_and<order::release>(~freed.bits);
        // In doubt if a page was free already, or if two lanes freed the same page: their bits coincide in the OR.
        doubtful = (old & freed.bits) != freed.bits || simt::popcount(freed.bits) != simt::popcount(freed.peers);
    }
    if (simt::ballot(here, doubtful) == 0) {
        return at.exact;
    }
    const bool right = was_right(here, freed.peers, std::uint64_t{1} << at.bit, old);
    return at.exact && right;
}

}  // namespace orchard::device
