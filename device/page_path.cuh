// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Small requests: pages of slabs. First the lanes' homes, then a search.

#include "device/page_home.cuh"
#include "device/page_rounds.cuh"

namespace orchard::device {

/// Counts a group that asks for pages; its leader calls it. No round trip.
ORCHARD_INLINE void count_group(const heap_view& h, lane_mask group, std::uint32_t page_class) {
    auto& counts = h.state->pages[heap_view::own_shard()][page_class];
    counts.groups[simt::popcount(group) - 1].fetch_add<order::relaxed>(1);
}

/// A page of its class for every lane of `here`, or null with the reason. Lanes of several classes and heaps are
/// served side by side: all collectives are over `here`.
///
/// Any mask. Cost on a hit, for all lanes of one class together: two loads side by side, one atomic, a load.
ORCHARD_INLINE void* allocate_page(const heap_view& h, lane_mask here, std::uint32_t page_class, failure_reason* why) {
    const class_shape shape = shape_of(page_class);
    const auto warp = static_cast<std::uint32_t>(simt::position().global_warp());
    const page_home home = home_of(shape, warp, static_cast<std::uint32_t>(simt::lane_id()));
    // Heaps are told apart by where their states lie.
    const lane_mask group = simt::match(here, reinterpret_cast<std::uintptr_t>(h.state) + page_class);
    const lane_mask beside = group & home.beside;
    const int leader = simt::leader_of(beside);
    home_claim claim;
    if (simt::lane_id() == leader) {
        const int first = simt::lane_id() - static_cast<int>(home.bit);
        claim = claim_home(h, page_class, shape, home, beside >> first);
        if (is_leader(group)) {
            count_group(h, group, page_class);
        }
    }
    simt::sync(here);  // what the leaders acquired with their claims is so for all
    found_page mine{simt::shuffle(here, claim.segment, leader), home.unit * 32 + home.bit};
    bool found = (simt::shuffle(here, claim.won, leader) >> home.bit & 1) != 0;
    if (simt::ballot(here, !found) != 0) {
        // The lanes whose own page was taken get the others by rank.
        const std::uint64_t spare = simt::shuffle(here, claim.spare, leader);
        const lane_mask others = beside & simt::ballot(here, !found || simt::mutation::is(fault::share_ballot));
        const int rank = simt::rank_in(others);
        if (!found && rank < simt::popcount(spare)) {
            mine.page = home.unit / 2 * 64 + static_cast<std::uint32_t>(random_walk::nth_one(spare, rank));
            found = true;
        }
        const lane_mask lack = simt::ballot(here, !found && mine.segment != home_claim::closing);
        if (!found) {
            if (mine.segment == home_claim::closing) {
                *why = failure_reason::closing;
                return nullptr;
            }
            mine = find_page(*h.self, lack, group & lack, page_class);
            if (mine.page == found_page::none) {
                *why = static_cast<failure_reason>(mine.segment);
                return nullptr;
            }
        }
    }
    return h.address(mine.segment) + std::uint64_t{mine.page} * shape.bytes();
}

}  // namespace orchard::device
