// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The first step of a small request: all lanes of a group look for pages at their hints. Lanes that find no page there
/// continue in search.cuh.
///
///     heap_ref::allocate
///       try_hint                   this file      groups the lanes of the warp, gives each its page
///         claim_hint               hint.cuh       one lane for each unit: three loads
///           claim_unit             hint.cuh         an atomic OR, a load of the descriptor
///       search_page                search.cuh     only the lanes without a page

#include "device/small/hint.cuh"

namespace orchard::device {

/// Counts a group that asks for pages, as if each lane got one; `record_no_page` counts the exceptions. The group's
/// leader calls it alone. No round trip: the result of the atomic is not used.
ORCHARD_INLINE void count_group(const heap_view& h, lane_mask group, std::uint32_t page_class) {
    if (page_class >= class_count) {
        __builtin_unreachable();  // which compilers do not see from every call
    }
    auto& counts = h.state->pages[heap_view::own_shard()][page_class];
    counts.groups[simt::popcount(group) - 1].fetch_add<order::relaxed>(1);
}

/// The result of a look at a lane's hint.
struct hint_result {
    found_page mine;       ///< without a page, `segment` is that of the slab at the hint, where a search may begin
    bool closing = false;  ///< the heap is being closed: the request fails at once
    lane_mask lack = 0;    ///< lanes of the warp that found no page
    lane_mask group = 0;   ///< lanes of the warp that ask the same heap for the same class
};

/// Returns a page for the calling lane if there is one at its hint. All lanes of `here` call it, converged; they may
/// ask different heaps and classes. Cost: see `claim_hint`; on a hit also a match, a barrier, three shuffles, a ballot.
///
/// Collectives are over `here`, not over a group: collectives over parts of a warp would be executed one after the
/// other, and each group would wait for the atomics of those before it.
///
///     here      lanes that are in `malloc` together
///     group     those of `here` that ask the same heap for the same class; its leader counts the request
///     beside    those of `group` whose hints lie in one unit, usually all; its leader claims for all its lanes
ORCHARD_INLINE hint_result try_hint(const heap_view& h, lane_mask here, std::uint32_t page_class) {
    const class_shape shape = shape_of(page_class);
    const auto warp = static_cast<std::uint32_t>(simt::position().global_warp());
    const page_hint hint = hint_of(shape, warp, static_cast<std::uint32_t>(simt::lane_id()));
    hint_result r;
    // The address of a heap's state identifies the heap. It is a multiple of 128, so that the sum is different for each
    // pair of heap and class.
    r.group = simt::match(here, reinterpret_cast<std::uintptr_t>(h.state) + page_class);
    const lane_mask beside = r.group & hint.beside;
    const int leader = simt::leader_of(beside);
    hint_claim claim;
    if (simt::lane_id() == leader) {
        // The lane whose hint is bit 0 of the unit; the shift turns lanes into bits of the unit.
        const int first = simt::lane_id() - static_cast<int>(hint.bit);
        claim = claim_hint(h, page_class, shape, hint, beside >> first);
        if (is_leader(r.group)) {
            count_group(h, r.group, page_class);
        }
    }
    simt::sync(here);  // the leaders' acquires hold for all lanes
    const std::uint32_t segment = simt::shuffle(here, claim.segment, leader);
    const std::uint32_t unit = simt::shuffle(here, claim.unit, leader);
    bool found = (simt::shuffle(here, claim.won, leader) >> hint.bit & 1) != 0;
    r.mine = {segment, unit * 32 + hint.bit};
    if (simt::ballot(here, !found) == 0) {
        return r;
    }
    // Lanes whose own page was taken get the spare pages, by rank. The ranks are those among lanes without a page:
    // ranks among all lanes would leave gaps, and claimed pages would get lost. The leader claimed no more spare pages
    // than lanes lacked, so that none is left over.
    const std::uint64_t spare = simt::shuffle(here, claim.spare, leader);
    const lane_mask others = beside & simt::ballot(here, !found || simt::mutation::is(fault::share_ballot));
    const int rank = simt::rank_in(others);
    if (!found && rank < simt::popcount(spare)) {
        r.mine.page = unit / 2 * 64 + static_cast<std::uint32_t>(nth_one(spare, rank));
        found = true;
    }
    r.mine.page = found ? r.mine.page : found_page::none;
    r.closing = segment == hint_claim::closing;
    r.lack = simt::ballot(here, !found && !r.closing);
    return r;
}

}  // namespace orchard::device
