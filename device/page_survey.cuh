// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The last look at a class's slab table before null is returned.

#include "device/page_growth.cuh"

namespace orchard::device {

/// What a survey says.
enum class surveyed : std::uint32_t { nothing, refused, opened };

/// After a sweep that saw nothing, and before null is returned: looks at the newest value of every entry, so that the
/// next sweep passes over no slab; and where a place is empty and `try_to_open`, opens that. All lanes of one group,
/// others stand by.
inline ORCHARD_NOINLINE surveyed survey(const heap_view& h, lane_mask group, std::uint32_t page_class,
                                        std::uint32_t places, bool try_to_open) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(group));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(group));
    const std::uint32_t end = places < h.segments ? places + 1 : places;
    surveyed result = surveyed::nothing;
    for (std::uint32_t i = 0; i < end; i += width) {
        const std::uint32_t place = i + rank;
        bool empty = false;
        if (place < end) {
            auto& entry = h.table(page_class)[place];
            empty = entry.load<order::acquire>() == 0 && entry.fetch_or<order::acquire>(0) == 0;
        }
        const lane_mask holes = simt::ballot(group, empty);
        if (holes != 0 && try_to_open && result == surveyed::nothing) {
            const std::uint32_t hole = simt::shuffle(group, place, simt::lowest_bit(holes));
            if (open_place(h, group, page_class, hole).entry != 0) {
                return surveyed::opened;
            }
            result = surveyed::refused;
        }
    }
    return result;
}

}  // namespace orchard::device
