// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// New slabs at places of a class's table: whoever reserves the place gets a segment for it, others wait.

#include "device/grants.cuh"

namespace orchard::device {

/// Reserves a place in the class's table for a slab that the caller is about to put there. Any lane, alone. The entry
/// found: 0 where the place is the caller's now.
inline ORCHARD_FN std::uint32_t reserve_place(const heap_view& h, std::uint32_t page_class, std::uint32_t place) {
    auto& entry = h.table(page_class)[place];
    std::uint32_t found = entry.load<order::acquire>();  // pairs with who has published the slab
    if (found == 0) {
        // Before the entry, so that a sweep looks at the place; a place that stays empty costs it a load.
        h.state->slabs[page_class].count.raise<order::relaxed>(place + 1);
        entry.compare_exchange<order::acquire>(found, growing_entry);
    }
    return found;
}

/// Opens the next place of the class ahead of need, if the magazine can spare a segment. Any lane, alone.
inline ORCHARD_FN void grow_ahead(const heap_view& h, std::uint32_t page_class, std::uint32_t place) {
    if (place >= h.segments || magazine_level(h) * 2 <= h.magazine_target ||
        h.table(page_class)[place].load<order::relaxed>() != 0 || reserve_place(h, page_class, place) != 0) {
        return;
    }
    const lane_mask alone = lane_mask{1} << simt::lane_id();
    segment_run run;
    if (!magazine_take(h, alone, 1, &run)) {
        h.table(page_class)[place].store<order::release>(0);
        return;
    }
    slab_publish(h, page_class, place, to_underlying(run.first));
    refill_magazine(h, alone);
}

}  // namespace orchard::device
