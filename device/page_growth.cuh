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

/// Opens the next place of the class ahead of need, if the magazine can spare a segment: not the last quarter of what
/// it should hold. Any lane, alone.
inline ORCHARD_NOINLINE void grow_ahead(const heap_view& h, std::uint32_t page_class, std::uint32_t place) {
    if (place >= h.segments || magazine_level(h) * 4 <= h.magazine_target ||
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

/// The slab at a place, or why there is none.
struct opened_place {
    std::uint32_t entry = 0;  ///< segment + 1, or 0
    failure_reason why = failure_reason::none;
};

/// Gets a segment for a place that the leader has reserved. All lanes of a converged group.
inline ORCHARD_FN opened_place make_slab(const heap_view& h, lane_mask group, std::uint32_t page_class,
                                         std::uint32_t place) {
    segment_run run;
    opened_place out;
    out.why = acquire_segments(h, group, 1, &run);
    const std::uint32_t segment = to_underlying(run.first);
    if (is_leader(group)) {
        auto& refusal = h.state->slabs[page_class].refusal;
        if (out.why == failure_reason::none) {
            slab_publish(h, page_class, place, segment);
            if (refusal.load<order::relaxed>() % 256 != 0) {
                refusal.fetch_and<order::relaxed>(~0xffu);  // there is memory again
            }
        } else {
            const std::uint32_t before = refusal.load<order::relaxed>() / 256;
            refusal.store<order::relaxed>((before + 1) * 256 + static_cast<std::uint32_t>(out.why));
            h.table(page_class)[place].store<order::release>(0);
        }
    }
    simt::sync(group);
    out.entry = out.why == failure_reason::none ? segment + 1 : 0;
    return out;
}

/// The slab at a place: found, made, or waited for. All lanes of a converged group; the same result in all.
/// Cost: a load where it is there; otherwise as `acquire_segments`, for one group, and the others' wait.
inline ORCHARD_NOINLINE opened_place open_place(const heap_view& h, lane_mask group, std::uint32_t page_class,
                                                std::uint32_t place) {
    auto& refusal = h.state->slabs[page_class].refusal;
    const std::uint64_t started = from_leader(group, simt::clock_ns());
    for (;;) {
        const std::uint32_t refused = from_leader(group, refusal.load<order::acquire>()) / 256;
        std::uint32_t found = from_leader(group, is_leader(group) ? reserve_place(h, page_class, place) : 0);
        if (found == 0) {
            return make_slab(h, group, page_class, place);
        }
        // Somebody gets the slab for all. He has a deadline; should he stop for good, we have one too.
        while (found == growing_entry) {
            simt::pause(200);
            found = from_leader(group, h.table(page_class)[place].load<order::acquire>());
            const std::uint64_t now = from_leader(group, simt::clock_ns());
            if (found == growing_entry && now - started > 4 * h.mailboxes[0].timeout_ns) {
                return {0, failure_reason::service_not_answering};
            }
        }
        if (found != 0) {
            return {found, failure_reason::none};
        }
        // Either he got none, and then neither would we; or the slab came and went already.
        const std::uint32_t now = from_leader(group, refusal.load<order::relaxed>());
        if (now / 256 != refused && now % 256 != 0) {
            return {0, static_cast<failure_reason>(now % 256)};
        }
    }
}

}  // namespace orchard::device
