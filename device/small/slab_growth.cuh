// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// New slabs at entries of a class's table: the group that reserves an index gets a segment for it, the other groups
/// wait.

#include "device/reclaim/acquire.cuh"

namespace orchard::device {

/// Reserves an index in the class's table for a slab that the caller is about to put there. Any lane, alone. The entry
/// found: 0 where the index is the caller's now.
inline ORCHARD_FN std::uint32_t reserve_index(const heap_view& h, std::uint32_t page_class, std::uint32_t index) {
    auto& entry = h.table(page_class)[index];
    std::uint32_t found = entry.load<order::acquire>();  // pairs with who has published the slab
    if (found == 0) {
        // Before the entry, so that a sweep looks at the index; an index that stays empty costs it a load.
        h.state->slabs[page_class].count.raise<order::relaxed>(index + 1);
        entry.compare_exchange<order::acquire>(found, growing_entry);
    }
    return found;
}

/// Returns whether the class may grow ahead of need: looks at random words say that it is nearly full. Begins a new
/// sample then, so that the next slab needs new looks.
ORCHARD_INLINE bool begin_growing_ahead(const heap_view& h, std::uint32_t page_class) {
    auto& word = h.state->slabs[page_class].sample;
    std::uint64_t sample = word.load<order::relaxed>();
    return fill_sample::unpack(sample).is_tight(class_pages(page_class)) &&
           word.compare_exchange<order::relaxed>(sample, 0);
}

/// Clears the bitmap of a segment that becomes a slab. Any lane, alone.
inline ORCHARD_NOINLINE void clear_alone(const heap_view& h, std::uint32_t page_class, const segment_run& run) {
    clear_new_words(h, lane_mask{1} << simt::lane_id(), page_class, to_underlying(run.first));
}

/// Opens the next index of the class ahead of need, if the segment cache can spare a segment: not the last quarter of
/// what it should hold. Any lane, alone.
inline ORCHARD_NOINLINE void grow_ahead(const heap_view& h, std::uint32_t page_class, std::uint32_t index) {
    if (index >= h.max_slabs || cache_level(h) * 4 <= h.cache_target ||
        h.table(page_class)[index].load<order::relaxed>() != 0 || !begin_growing_ahead(h, page_class) ||
        reserve_index(h, page_class, index) != 0) {
        return;
    }
    const lane_mask alone = lane_mask{1} << simt::lane_id();
    segment_run run;
    if (!cache_take(h, alone, 1, &run)) {
        h.table(page_class)[index].store<order::release>(0);
        return;
    }
    clear_alone(h, page_class, run);
    slab_publish(h, page_class, index, to_underlying(run.first));
    refill_cache(h, alone);
}

/// The slab at an index of a class's table, for a group that needs one there: what lies in the lane's memory meanwhile.
struct slab_opening {
    const heap_view& h;
    lane_mask group;
    std::uint32_t page_class;
    std::uint32_t index = 0;
    std::uint32_t word = 0;   ///< of the bitmap: pages that the group wants if it is the one that makes the slab,
    std::uint64_t bits = 0;   ///< and then has, as its leader knows; so the slab is not empty, and nobody retires it
    std::uint32_t entry = 0;  ///< the result: segment + 1, or 0
    bool made = false;        ///< by this group
    failure_reason why = failure_reason::none;
    std::uint32_t rejections = 0;  ///< that the class had counted at first
    std::uint64_t started = 0;
    mailbox::grant got;
    std::uint64_t reclaim = 0;  ///< the one behind which a refusal is the last word; 0: no sweep has found nothing yet

    ORCHARD_FN slab_opening(const heap_view& heap, lane_mask mask, std::uint32_t of_class)
        : h{heap}, group{mask}, page_class{of_class} {}
};

/// After `acquire`: the bitmap of the segment, which may be no slab's yet. All lanes.
inline ORCHARD_NOINLINE void clear_slab(const slab_opening& o) {
    // The leader has acquired the segment; whether it was a slab's once is for all lanes to see.
    simt::sync(o.group);
    if (o.why == failure_reason::none) {
        clear_new_words(o.h, o.group, o.page_class, to_underlying(o.got.first));
    }
}

/// After `acquire` for an index that the leader has reserved. All lanes.
inline ORCHARD_NOINLINE void settle_slab(slab_opening& o) {
    if (is_leader(o.group)) {
        auto& refusal = o.h.state->slabs[o.page_class].refusal;
        const std::uint32_t before = refusal.load<order::relaxed>();
        if (o.why == failure_reason::none) {
            const std::uint32_t segment = to_underlying(o.got.first);
            // A late claimer of the slab that the segment was before may still hold bits for a moment.
            o.bits &= ~set_bits(o.h.bitmap(segment)[o.word], o.bits);
            slab_publish(o.h, o.page_class, o.index, segment);
            if (before % 256 != 0) {
                refusal.fetch_and<order::relaxed>(~0xffu);  // there is memory again
            }
        } else {
            refusal.store<order::relaxed>((before / 256 + 1) * 256 + static_cast<std::uint32_t>(o.why));
            o.h.table(o.page_class)[o.index].store<order::release>(0);
        }
    }
    simt::sync(o.group);
    o.entry = o.why == failure_reason::none ? to_underlying(o.got.first) + 1 : 0;
}

/// Returns whether it is known already that no segment can be got: each group of a warp would find that out by itself,
/// one after the other. `o.why` says the reason. All lanes.
inline ORCHARD_NOINLINE bool is_known_unserved(slab_opening& o) {
    std::uint32_t why = 0;
    if (is_leader(o.group) && cache_level(o.h) == 0) {
        why = static_cast<std::uint32_t>(o.h.mailboxes[first_shard_of_warp(o.h)].known_rejection(leaves_per_segment));
    }
    o.why = static_cast<failure_reason>(from_leader(o.group, why));
    return o.why != failure_reason::none;
}

/// Returns whether it is known by now that no segment is to be had behind the reclaim that the group needs. `o.why`
/// says the reason. All lanes.
inline ORCHARD_NOINLINE bool is_exhausted(slab_opening& o) {
    o.why = static_cast<failure_reason>(from_leader(o.group, static_cast<std::uint32_t>(known_lack(o.h, o.reclaim))));
    return o.why != failure_reason::none;
}

/// Returns true if the leader has reserved the index. Otherwise another group is getting a slab for it, and this one
/// has waited for the result. All lanes.
inline ORCHARD_NOINLINE bool await_slab(slab_opening& o) {
    auto& refusal = o.h.state->slabs[o.page_class].refusal;
    o.started = from_leader(o.group, simt::clock_ns());
    ORCHARD_NO_UNROLL
    for (;;) {
        if (is_known_unserved(o)) {
            return false;
        }
        o.rejections = from_leader(o.group, refusal.load<order::acquire>()) / 256;
        o.entry = from_leader(o.group, is_leader(o.group) ? reserve_index(o.h, o.page_class, o.index) : 0);
        if (o.entry == 0) {
            return true;
        }
        // The group that reserved the index has a deadline. This one has a longer one, in case that group never ends.
        ORCHARD_NO_UNROLL
        while (o.entry == growing_entry) {
            simt::pause(200);
            o.entry = from_leader(o.group, o.h.table(o.page_class)[o.index].load<order::acquire>());
            const std::uint64_t now = from_leader(o.group, simt::clock_ns());
            if (o.entry == growing_entry && now - o.started > 4 * o.h.mailboxes[0].timeout_ns) {
                o.entry = 0;
                o.why = failure_reason::service_not_answering;
                return false;
            }
        }
        if (o.entry != 0) {
            return false;
        }
        // The other group got no segment, so this one would get none either, unless it needs a later reclaim; or the
        // slab has been retired again.
        const std::uint32_t now = from_leader(o.group, refusal.load<order::relaxed>());
        const auto why = static_cast<failure_reason>(now % 256);
        if (now / 256 != o.rejections && why != failure_reason::none && (o.reclaim == 0 || !is_shortage(why))) {
            o.why = why;
            return false;
        }
        if (o.reclaim != 0 && is_exhausted(o)) {
            return false;
        }
    }
}

/// The slab at `o.index`: found, made, or waited for. A group that needs a reclaim waits for it before it reserves the
/// index: others would wait for that index. All lanes of a converged group; the same result in all.
/// Cost: as `acquire`, for one group, and the others' wait.
ORCHARD_INLINE void open_slab(slab_opening& o) {
    o.why = failure_reason::none;
    if (o.reclaim != 0) {
        await_reclaim(o.h, o.group, o.reclaim);
        if (is_exhausted(o)) {
            return;
        }
    }
    o.made = await_slab(o);
    if (o.made) {
        o.why = acquire(o.h, o.group, {1, 0, 0, o.reclaim}, &o.got);
        clear_slab(o);
        settle_slab(o);
    }
}

}  // namespace orchard::device
