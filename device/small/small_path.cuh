// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Small requests: pages of slabs. First the lanes' hints, then a search.

#include "device/small/hint.cuh"

namespace orchard::device {

/// Counts a group that asks for pages; its leader calls it. No round trip.
ORCHARD_INLINE void count_group(const heap_view& h, lane_mask group, std::uint32_t page_class) {
    if (page_class >= class_count) {
        __builtin_unreachable();  // which compilers do not see from every call
    }
    auto& counts = h.state->pages[heap_view::own_shard()][page_class];
    counts.groups[simt::popcount(group) - 1].fetch_add<order::relaxed>(1);
}

/// What a lane has after a look at its hint.
struct hint_result {
    found_page mine;
    bool closing = false;
    lane_mask lack = 0;   ///< lanes that have no page
    lane_mask group = 0;  ///< lanes of the same heap and class
};

/// A page at its hint for every lane of `here`, as far as there are any there. All collectives are over `here`.
ORCHARD_INLINE hint_result try_hint(const heap_view& h, lane_mask here, std::uint32_t page_class) {
    const class_shape shape = shape_of(page_class);
    const auto warp = static_cast<std::uint32_t>(simt::position().global_warp());
    const page_hint hint = hint_of(shape, warp, static_cast<std::uint32_t>(simt::lane_id()));
    hint_result r;
    // Heaps are told apart by where their states lie.
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
    simt::sync(here);  // what the leaders acquired with their claims is so for all
    const std::uint32_t unit = simt::shuffle(here, claim.unit, leader);
    bool found = (simt::shuffle(here, claim.won, leader) >> hint.bit & 1) != 0;
    r.mine = {unit / units_per_segment, unit % units_per_segment * 32 + hint.bit};
    if (simt::ballot(here, !found) == 0) {
        return r;
    }
    // The lanes whose own page was taken get the others by rank.
    const std::uint64_t spare = simt::shuffle(here, claim.spare, leader);
    const lane_mask others = beside & simt::ballot(here, !found || simt::mutation::is(fault::share_ballot));
    const int rank = simt::rank_in(others);
    if (!found && rank < simt::popcount(spare)) {
        const std::uint32_t word = unit % units_per_segment / 2;
        r.mine.page = word * 64 + static_cast<std::uint32_t>(nth_one(spare, rank));
        found = true;
    }
    r.mine.page = found ? r.mine.page : found_page::none;
    r.closing = unit == hint_claim::closing;
    r.lack = simt::ballot(here, !found && !r.closing);
    return r;
}

}  // namespace orchard::device
