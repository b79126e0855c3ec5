// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The first step of a small request: all lanes of a group look for pages at their hints. Lanes that find no page there
/// continue in search.cuh.

#include "device/small/hint.cuh"

namespace orchard::device {

/// Counts a group that asks for pages. The group's leader calls it alone. No round trip: the result of the atomic is
/// not used.
ORCHARD_INLINE void count_group(const heap_view& h, lane_mask group, std::uint32_t page_class) {
    if (page_class >= class_count) {
        __builtin_unreachable();  // which compilers do not see from every call
    }
    auto& counts = h.state->pages[heap_view::own_shard()][page_class];
    counts.groups[simt::popcount(group) - 1].fetch_add<order::relaxed>(1);
}

/// The result of a look at a lane's hint.
struct hint_result {
    found_page mine;
    bool closing = false;
    lane_mask lack = 0;   ///< lanes of the warp that found no page
    lane_mask group = 0;  ///< lanes of the warp that ask the same heap for the same class
};

/// Returns a page for the calling lane if there is one at its hint. All lanes of `here` call it, converged; they may
/// ask different heaps and classes. Collectives are over `here`. Cost: see `claim_hint`.
ORCHARD_INLINE hint_result try_hint(const heap_view& h, lane_mask here, std::uint32_t page_class) {
    const class_shape shape = shape_of(page_class);
    const auto warp = static_cast<std::uint32_t>(simt::position().global_warp());
    const page_hint hint = hint_of(shape, warp, static_cast<std::uint32_t>(simt::lane_id()));
    hint_result r;
    // The address of a heap's state identifies the heap.
    r.group = simt::match(here, reinterpret_cast<std::uintptr_t>(h.state) + page_class);
    const lane_mask beside = r.group & hint.beside;
    const int leader = simt::leader_of(beside);
    hint_claim claim;
    if (simt::lane_id() == leader) {
        const int first = simt::lane_id() - static_cast<int>(hint.bit);
        claim = claim_hint(h, page_class, shape, hint, beside >> first);
        if (is_leader(r.group)) {
            count_group(h, r.group, page_class);
        }
    }
    simt::sync(here);  // what the leaders acquired with their claims holds for all lanes
    const std::uint32_t segment = simt::shuffle(here, claim.segment, leader);
    const std::uint32_t unit = simt::shuffle(here, claim.unit, leader);
    bool found = (simt::shuffle(here, claim.won, leader) >> hint.bit & 1) != 0;
    r.mine = {segment, unit * 32 + hint.bit};
    if (simt::ballot(here, !found) == 0) {
        return r;
    }
    // Lanes whose own page was taken get the spare pages, by rank.
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
