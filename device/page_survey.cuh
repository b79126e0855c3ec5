// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The last look at a class's slab table before null is returned.

#include "device/page_growth.cuh"

namespace orchard::device {

/// No place of a slab table.
inline constexpr std::uint32_t no_place = 0xffffffffu;

/// Returns the first place that is empty, or `no_place`. Looks at the newest value of the first `places` entries and
/// one more, so that the next sweep passes over no slab. All lanes of a group. Cost: a load for each entry, over the
/// lanes of the group, and an atomic for those that look empty.
inline ORCHARD_NOINLINE std::uint32_t survey(const heap_view& h, lane_mask group, std::uint32_t page_class,
                                             std::uint32_t places) {
    const std::uint32_t end = places < h.places ? places + 1 : places;
    std::uint32_t hole = no_place;
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = 0; i < end; i += static_cast<std::uint32_t>(simt::popcount(group))) {
        const std::uint32_t place = i + static_cast<std::uint32_t>(simt::rank_in(group));
        bool empty = false;
        if (place < end) {
            auto& entry = h.table(page_class)[place];
            empty = entry.load<order::acquire>() == 0 && entry.fetch_or<order::acquire>(0) == 0;
        }
        const lane_mask holes = simt::ballot(group, empty);
        if (holes != 0 && hole == no_place) {
            hole = simt::shuffle(group, place, simt::lowest_bit(holes));
        }
    }
    return hole;
}

}  // namespace orchard::device
