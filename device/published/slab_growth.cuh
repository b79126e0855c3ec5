// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Creates slabs for the published walks: if a sweep saw no free page of a class, one group adds one slab to it.
///
///     table entry   0 --reserve_index--> growing_entry --slab_publish--> segment + 1
///                   ^                         |
///                   +--no segment, or no need-+
///
/// `published_view::grown` counts the slabs that were added. A group reads it before it walks. If it has changed by
/// the time that the group has reserved an index, there are pages that the group has not seen, and it walks again
/// instead:
///
///     group A    grown is 7, walk: full          reserves index 3    grown is 8: empties it, walks again
///     group B                     publishes index 2: grown = 8
///
/// Without this, each of many groups that found the same slabs full would add one of its own. The table, its entries
/// and `slab_publish` are those of Orchard's own path (device/small/slab_growth.cuh).

#include "device/published/published_view.cuh"
#include "device/small/slab_growth.cuh"

namespace orchard::device {

/// Returns the lowest index of a class's table that holds no slab; `count` if all of [0, count) hold one. All lanes of
/// a converged group call it, and get the same result. Cost: a load for each index, divided among the lanes; an atomic
/// for each entry that seems to be empty.
///
/// A load may return an old 0 although a slab has been published there. An atomic reads the newest value, so that a
/// slab with free pages is not taken for a missing one.
inline ORCHARD_NOINLINE std::uint32_t first_open_index(const published_view& h, lane_mask mask,
                                                       std::uint32_t page_class, std::uint32_t count) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(mask));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(mask));
    for (std::uint32_t i = 0; i < count; i += width) {
        bool open = false;
        if (i + rank < count) {
            auto& entry = h.table(page_class)[i + rank];
            // Acquire: pairs with `slab_publish`. An OR with 0 reads the newest value.
            open = !is_slab_entry(entry.load<order::acquire>()) && !is_slab_entry(entry.fetch_or<order::acquire>(0));
        }
        const lane_mask seen = simt::ballot(mask, open);
        if (seen != 0) {
            return i + static_cast<std::uint32_t>(simt::popcount(((seen & (~seen + 1)) - 1) & mask));
        }
    }
    simt::sync(mask);  // what one lane has acquired holds for all lanes
    return count;
}

/// Gets a segment for an index that the leader has reserved, and publishes it as a slab. Returns none, or why there is
/// no segment; it then empties the index and notes the reason for the waiting groups (`slab_table_head::failure`). All
/// lanes of the group call it. Cost: `acquire_segments`, and the clearing of the bitmap if it was never cleared.
inline ORCHARD_NOINLINE failure_reason fill_slab(const published_view& h, lane_mask mask, std::uint32_t page_class,
                                                 std::uint32_t place) {
    segment_run run;
    // One reclaim: other groups wait for the index.
    const failure_reason why = acquire_segments(h, mask, 1, &run, 1);
    simt::sync(mask);  // the leader acquired the segment; the barrier orders the other lanes after its last use
    if (why == failure_reason::none) {
        clear_new_words(h, mask, page_class, to_underlying(run.first));
        simt::sync(mask);
    }
    if (is_leader(mask)) {
        auto& head = h.state->slabs[page_class];
        if (why == failure_reason::none) {
            // Counted before the slab is visible: a group that reads the new count waits for the slab.
            h.grown[page_class].fetch_add<order::relaxed>(1);
            slab_publish(h, page_class, place, to_underlying(run.first));
        } else {
            const auto before = slab_failure::unpack(head.failure.load<order::relaxed>());
            head.failure.store<order::relaxed>(before.next(why));
            // Release: pairs with the acquire in `await_growth`.
            h.table(page_class)[place].store<order::release>(0);
        }
    }
    simt::sync(mask);
    return why;
}

/// Waits, until a deadline, for the slab that another group is creating at an index. Returns none if walking again is
/// worthwhile: the slab is there, or the other group needed none any longer. Otherwise returns why it was not created;
/// its reason holds for this group as well. `before` is the value of `failure` before the index was seen reserved. All
/// lanes of the group call it. Cost: a load of device memory for each 200 ns.
///
/// The other group has deadlines of its own. The deadline here is longer, for the case that the other group never ends.
inline ORCHARD_NOINLINE failure_reason await_growth(const published_view& h, lane_mask mask, std::uint32_t page_class,
                                                    std::uint32_t place, std::uint32_t before) {
    const std::uint64_t began = from_leader(mask, simt::clock_ns());
    for (;;) {
        // Acquire, by all lanes: pairs with the release of the group that published the slab or emptied the index.
        const std::uint32_t entry = h.table(page_class)[place].load<order::acquire>();
        if (from_leader(mask, entry) != growing_entry) {
            break;
        }
        if (from_leader(mask, simt::clock_ns() - began > h.mailbox.patience_ns() ? 1u : 0u) != 0) {
            return failure_reason::service_not_responding;
        }
        simt::pause(200);
    }
    const std::uint32_t now = from_leader(mask, h.state->slabs[page_class].failure.load<order::relaxed>());
    return now == before ? failure_reason::none : slab_failure::unpack(now).why;
}

/// Adds a slab to a class, or waits for one that another group adds. Returns none if walking again is worthwhile.
/// `seen` is the value of `grown` before the walk that found nothing. All lanes of a converged group call it; the
/// result is the same in all. Errors: those of `acquire_segments`, also those that the other group got;
/// out_of_memory_device_budget if the table is full; service_not_responding at the deadline of `await_growth`.
inline ORCHARD_NOINLINE failure_reason grow_published(const published_view& h, lane_mask mask, std::uint32_t page_class,
                                                      std::uint32_t seen) {
    auto& head = h.state->slabs[page_class];
    // Adds 0: a read-modify-write reads the newest value.
    const std::uint32_t count = from_leader(mask, is_leader(mask) ? head.count.fetch_add<order::acquire>(0) : 0);
    const std::uint32_t place = first_open_index(h, mask, page_class, count);
    if (place >= h.max_slabs) {
        return failure_reason::out_of_memory_device_budget;
    }
    // Acquire, so that the entry is read after this count.
    const std::uint32_t before = from_leader(mask, head.failure.load<order::acquire>());
    const std::uint32_t found = from_leader(mask, is_leader(mask) ? reserve_index(h, page_class, place) : 0);
    if (found == growing_entry) {
        return await_growth(h, mask, page_class, place, before);
    }
    if (found != 0) {
        return failure_reason::none;  // another group has created the slab meanwhile
    }
    // Adds 0: a read-modify-write reads the newest value.
    if (from_leader(mask, is_leader(mask) ? h.grown[page_class].fetch_add<order::acquire>(0) : 0) != seen) {
        if (is_leader(mask)) {
            // Release: pairs with the acquire in `await_growth`.
            h.table(page_class)[place].store<order::release>(0);
        }
        return failure_reason::none;
    }
    return fill_slab(h, mask, page_class, place);
}

}  // namespace orchard::device
