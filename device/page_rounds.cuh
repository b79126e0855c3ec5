// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Where the homes had no page: first a few rounds for all small groups of a warp at once, then a search by each group.

#include "device/page_search.cuh"

namespace orchard::device {

/// First, for small groups: the leaders of all that the warp has now look at a random word each, side by side. Lanes
/// `lack`, converged; `group`: those of the lane's own heap and class. Up to three rounds.
inline ORCHARD_FN found_page search_side_by_side(const heap_view& h, lane_mask lack, lane_mask group,
                                                 std::uint32_t page_class, std::uint32_t random) {
    constexpr int rounds = 3;
    constexpr int small = 8;
    found_page mine;
    const std::uint32_t words = class_words(page_class);
    // One lane's look counts for all of a group.
    const std::uint32_t seen =
        simt::popcount(group) <= small ? h.state->slabs[page_class].count.load<order::relaxed>() : 0;
    const std::uint32_t count = simt::shuffle(lack, seen, simt::leader_of(group));
    lane_mask without = lack;
    for (int round = 0; round < rounds; ++round) {
        const lane_mask beside = group & without;
        const bool asks = mine.page == found_page::none && simt::popcount(beside) <= small && count != 0;
        if (simt::ballot(lack, asks) == 0) {
            break;
        }
        const int leader = asks ? simt::leader_of(beside) : simt::lane_id();
        std::uint64_t won = 0;
        std::uint32_t segment = 0;
        std::uint32_t word = 0;
        if (asks && simt::lane_id() == leader) {
            random = mix(random + 0x9e3779b9u);
            word = random % words;
            const std::uint32_t entry = h.table(page_class)[mix(random) % count].load<order::relaxed>();
            if (is_slab_entry(entry)) {
                segment = entry - 1;
                const std::uint64_t all = class_word_mask(page_class, word);
                const std::uint64_t free_bits = ~h.bitmap(segment)[word].load<order::relaxed>() & all;
                if (free_bits != 0) {
                    const auto need = static_cast<std::uint32_t>(simt::popcount(beside));
                    won = slab_claim(h, page_class, segment, word, ones_from(free_bits, need, random >> 26));
                }
                if (words > 1 && simt::popcount(free_bits) * 4 <= simt::popcount(all)) {
                    grow_ahead(h, page_class, count);
                }
            }
        }
        simt::sync(lack);
        won = simt::shuffle(lack, won, leader);
        segment = simt::shuffle(lack, segment, leader);
        word = simt::shuffle(lack, word, leader);
        const int rank = simt::rank_in(beside);
        if (asks && rank < simt::popcount(won)) {
            mine = {segment, word * 64 + static_cast<std::uint32_t>(random_walk::nth_one(won, rank))};
        }
        without = simt::ballot(lack, mine.page == found_page::none);
    }
    return mine;
}

/// A page for every lane of `lack`, as far as there are any; all of them are converged. `group`: those of the lane's
/// own heap and class.
inline ORCHARD_NOINLINE found_page find_page(const heap_view& h, lane_mask lack, lane_mask group,
                                             std::uint32_t page_class) {
    const std::uint32_t random =
        mix(static_cast<std::uint32_t>(simt::position().global_thread()) ^ page_class << 24 ^ simt::noise() << 4);
    if (is_leader(group)) {
        h.add(counter::searches, std::uint64_t{1} << 32);
    }
    found_page mine = search_side_by_side(h, lack, group, page_class, random);
    const lane_mask left = group & simt::ballot(lack, mine.page == found_page::none);
    if (mine.page == found_page::none) {
        if (is_leader(left)) {
            h.add(counter::searches, 1);
        }
        mine = page_search(h, left, page_class).run();
    }
    return mine;
}

}  // namespace orchard::device
