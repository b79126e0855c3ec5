// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Creates slabs. The group that reserves an index of a class's table gets a segment for it; groups that need the same
/// index wait for the result.
///
/// An entry of the table is 0 (empty), `growing_entry` (a group has reserved the index), or segment + 1 (a slab). A
/// reservation ends with a slab (`slab_publish`) or, if no segment was got, with 0:
///
///           reserve_index                     slab_publish
///     0 --------------------> growing_entry -----------------> segment + 1
///     ^                             |                               |
///     +----- no segment was got ----+                               |
///     +---------------- slab_leaves_table (a retirement) -----------+
///
/// Groups that wait at `growing_entry` must learn why it became 0 again. `slab_table_head::failure` tells them:
///
///     31            8 7      0
///     |   failures   | reason |     failures: number of failures to open a slab of the class; reason 0: memory is
///                                   available again
///
/// A group reads the number before it waits. If the entry is 0 afterwards and the number has changed, the reason
/// applies to this group as well. If the number has not changed, a slab appeared and was retired again, or a group that
/// only wanted to grow ahead gave the index up; the waiting group then reserves the index itself.

#include "device/reclaim/acquire.cuh"

namespace orchard::device {

/// Reserves an index of the class's table if it is empty. Returns the entry found: 0 if the caller has the index now,
/// else `growing_entry` or segment + 1. One lane calls it alone. Cost: a load; two atomics if the index is empty.
inline ORCHARD_FN std::uint32_t reserve_index(const heap_view& h, std::uint32_t page_class, std::uint32_t index) {
    auto& entry = h.table(page_class)[index];
    std::uint32_t found = entry.load<order::acquire>();  // pairs with `slab_publish`
    if (found == 0) {
        // Raised before the entry is written, so that a scan covers the index. An index that stays empty costs a scan
        // one load.
        h.state->slabs[page_class].count.raise<order::relaxed>(index + 1);
        // Acquires the release of the group that emptied the index or, on failure, of the group that published a slab.
        entry.compare_exchange<order::acquire>(found, growing_entry);
    }
    return found;
}

/// Returns whether the class should get a slab ahead of need: if random probes say that it is nearly full. It then
/// begins a new sample, so that the next slab needs new probes. One lane calls it alone. Of several groups that see the
/// same sample, the compare-and-swap lets one grow the class.
ORCHARD_INLINE bool begin_growing_ahead(const heap_view& h, std::uint32_t page_class) {
    auto& word = h.state->slabs[page_class].sample;
    std::uint64_t sample = word.load<order::relaxed>();
    return fill_sample::unpack(sample).is_tight(class_pages(page_class)) &&
           word.compare_exchange<order::relaxed>(sample, 0);
}

/// Clears the bitmap of a segment that becomes a slab. One lane calls it alone. Cost: up to 2,048 stores.
inline ORCHARD_NOINLINE void clear_alone(const heap_view& h, std::uint32_t page_class, const segment_run& run) {
    clear_new_words(h, lane_mask{1} << simt::lane_id(), page_class, to_underlying(run.first));
}

/// Creates a slab at `index` ahead of need, if the segment cache can spare a segment: at least a quarter of the target
/// must remain. One lane calls it alone. It never waits for the host. Cost if nothing is to be done: up to three loads.
/// `index` is `spread`, the first index behind all slabs. It is reserved after all checks, because other groups that
/// need the index wait for it from then on.
inline ORCHARD_NOINLINE void grow_ahead(const heap_view& h, std::uint32_t page_class, std::uint32_t index) {
    if (index >= h.max_slabs || cache_level(h) * 4 <= h.cache_target ||
        h.table(page_class)[index].load<order::relaxed>() != 0 || !begin_growing_ahead(h, page_class) ||
        reserve_index(h, page_class, index) != 0) {
        return;
    }
    const lane_mask alone = lane_mask{1} << simt::lane_id();
    segment_run run;
    if (!cache_take(h, alone, 1, &run)) {
        if (!simt::mutation::is(fault::reserved_index)) {
            // Release: pairs with the acquires in `reserve_index` and `await_slab`. No failure is noted in `failure`,
            // since this lane did not ask the host; groups that wait here then try themselves.
            h.table(page_class)[index].store<order::release>(0);
        }
        return;
    }
    clear_alone(h, page_class, run);
    slab_publish(h, page_class, index, to_underlying(run.first));
    refill_cache(h, alone);
}

/// The state of a group that needs a slab at an index, kept in local memory between the phases of `open_slab`.
struct slab_opening {
    const heap_view& h;
    lane_mask group;
    std::uint32_t page_class;
    std::uint32_t index = 0;  ///< the index of the class's table, below `max_slabs`
    std::uint32_t word = 0;   ///< the bitmap word with the pages that the group wants if it creates the slab
    std::uint64_t bits = 0;   ///< these pages; after the creation, in the leader: those that the group has claimed
    std::uint32_t entry = 0;  ///< the result: segment + 1, or 0
    bool made = false;        ///< this group created the slab
    failure_reason why = failure_reason::none;  ///< the result: why there is no slab
    std::uint32_t failures = 0;                 ///< count of failures of the class when this group began to wait
    std::uint64_t started = 0;                  ///< time when this group began to wait, or last saw progress, in ns
    std::uint64_t progress = 0;                 ///< responses that all mailboxes had delivered then
    mailbox::grant got;                         ///< the segment that `acquire` got
    std::uint64_t reclaim = 0;  ///< the reclaim after which a failure is final; 0: no scan has failed yet

    ORCHARD_FN slab_opening(const heap_view& heap, lane_mask mask, std::uint32_t of_class)
        : h{heap}, group{mask}, page_class{of_class} {}
};

/// Clears the bitmap words of a segment that `acquire` got. All lanes of the group call it.
inline ORCHARD_NOINLINE void clear_slab(const slab_opening& o) {
    // The leader has acquired the segment. All lanes then read how far its bitmap was cleared before.
    simt::sync(o.group);
    if (o.why == failure_reason::none) {
        clear_new_words(o.h, o.group, o.page_class, to_underlying(o.got.first));
    }
}

/// Ends the reservation of an index after `acquire`: publishes the slab, or empties the index and notes the failure.
/// All lanes of the group call it. Sets `o.entry`, and `o.bits` to the pages that the leader has claimed.
///
/// On failure, the reason is noted before the index is emptied. A waiting group acquires the entry before it reads the
/// reason: if it sees the 0, it sees the reason as well, so that the accesses to `failure` can be relaxed.
inline ORCHARD_NOINLINE void settle_slab(slab_opening& o) {
    if (is_leader(o.group)) {
        auto& failure = o.h.state->slabs[o.page_class].failure;
        const auto before = slab_failure::unpack(failure.load<order::relaxed>());
        if (o.why == failure_reason::none) {
            const std::uint32_t segment = to_underlying(o.got.first);
            // The group claims its pages before the slab is published, so that the slab is not empty and no group
            // retires it. A late claimer of the segment's former slab may still hold some bits for a moment.
            o.bits &= simt::mutation::is(fault::maker_pages) ? 0 : ~set_bits(o.h.bitmap(segment)[o.word], o.bits);
            slab_publish(o.h, o.page_class, o.index, segment);
            if (before.why != failure_reason::none) {
                failure.fetch_and<order::relaxed>(~slab_failure::reason_bits);  // memory is available again
            }
        } else {
            failure.store<order::relaxed>(before.next(o.why));
            // Release: pairs with the acquires in `reserve_index` and `await_slab`.
            o.h.table(o.page_class)[o.index].store<order::release>(0);
        }
    }
    simt::sync(o.group);
    o.entry = o.why == failure_reason::none ? to_underlying(o.got.first) + 1 : 0;
}

/// Returns whether the mailbox knows already that no segment can be got, and sets `o.why`. Otherwise each group of a
/// warp would find that out by itself, one after the other. Memory in the chunk store may serve the group
/// (`take_spilled`). All lanes of the group call it. Cost: usually three loads.
inline ORCHARD_NOINLINE bool is_known_unserved(slab_opening& o) {
    std::uint32_t why = 0;
    if (is_leader(o.group) &&
        cache_level(o.h) + not_negative(o.h.state->stored_leaves.word.load<order::relaxed>()) == 0) {
        why = static_cast<std::uint32_t>(o.h.mailboxes[first_shard_of_warp(o.h)].known_rejection(leaves_per_segment));
    }
    o.why = static_cast<failure_reason>(from_leader(o.group, why));
    return o.why != failure_reason::none;
}

/// Returns whether it is known that no segment can be got after the reclaim that the group needs, and sets `o.why`. All
/// lanes of the group call it. The note must be behind this reclaim or a later one: an older note may have been written
/// before memory was freed that this reclaim has found.
inline ORCHARD_NOINLINE bool is_exhausted(slab_opening& o) {
    o.why = static_cast<failure_reason>(from_leader(o.group, static_cast<std::uint32_t>(known_lack(o.h, o.reclaim))));
    return o.why != failure_reason::none;
}

/// Notes the time and the progress of the mailboxes. All lanes of the group call it.
inline ORCHARD_NOINLINE void begin_waiting(slab_opening& o) {
    std::uint64_t done = 0;
    for (std::uint32_t s = 0; s < o.h.shards; ++s) {
        done += o.h.mailboxes[s].delivered();
    }
    o.started = from_leader(o.group, simt::clock_ns());
    o.progress = from_leader(o.group, done);
}

/// Returns whether the group that reserved the index seems to have stopped for good: no response was delivered to any
/// group for longer than that group would wait for its own. All lanes of the group call it.
inline ORCHARD_NOINLINE bool has_stopped(slab_opening& o) {
    if (from_leader(o.group, simt::clock_ns()) - o.started <= o.h.mailboxes[0].patience_ns()) {
        return false;
    }
    const std::uint64_t before = o.progress;
    begin_waiting(o);
    return o.progress == before;
}

/// Returns true if the leader has reserved the index. Otherwise returns false after waiting for the group that has:
/// `o.entry` is the slab, or `o.why` says why there is none. All lanes of the group call it, with `o.why` none. Cost: a
/// few loads and two atomics if the index is empty; otherwise polls the entry in device memory. If the index is emptied
/// without a reason that applies to this group, a new round begins.
///
/// If this group needs a reclaim (`o.reclaim` != 0), a shortage that another group met does not count: that group may
/// have asked before this reclaim. Only the note of exhaustion, which names its reclaim, is then trusted.
inline ORCHARD_NOINLINE bool await_slab(slab_opening& o) {
    auto& failure = o.h.state->slabs[o.page_class].failure;
    begin_waiting(o);
    ORCHARD_NO_UNROLL
    for (;;) {
        if (is_known_unserved(o)) {
            return false;
        }
        // Acquire, so that the entry is read after this count. In the opposite order, a failure between the two reads
        // would be in the count already: this group would not recognise it, and would ask the host in vain.
        o.failures = slab_failure::unpack(from_leader(o.group, failure.load<order::acquire>())).count;
        o.entry = from_leader(o.group, is_leader(o.group) ? reserve_index(o.h, o.page_class, o.index) : 0);
        if (o.entry == 0) {
            return true;
        }
        ORCHARD_NO_UNROLL
        while (o.entry == growing_entry) {
            simt::pause(200);
            o.entry = from_leader(o.group, o.h.table(o.page_class)[o.index].load<order::acquire>());
            if (o.entry == growing_entry && !simt::mutation::is(fault::maker_deadline) && has_stopped(o)) {
                o.entry = 0;
                o.why = failure_reason::service_not_responding;
                return false;
            }
        }
        if (o.entry != 0) {
            return false;
        }
        // Either the other group got no segment, or its slab was retired again. If it got none, this group would get
        // none either, unless it needs a later reclaim.
        const auto now = slab_failure::unpack(from_leader(o.group, failure.load<order::relaxed>()));
        if (now.count != o.failures && now.why != failure_reason::none && (o.reclaim == 0 || !is_shortage(now.why))) {
            o.why = now.why;
            return false;
        }
        if (o.reclaim != 0 && is_exhausted(o)) {
            return false;
        }
    }
}

/// Gets the slab at `o.index`: finds it, creates it, or waits until another group has created it. The result is in
/// `o.entry` and `o.why`, the same in all lanes. If the group needs a reclaim, it waits for the reclaim before it
/// reserves the index, because other groups would wait for the index. All lanes of a converged group call it. Cost:
/// `acquire` for one group; the other groups wait for it.
///
/// Errors, in `o.why`: those of `acquire`, also those that the other group got; service_not_responding if the other
/// group has not ended its reservation, and no group has got a response, for `patience_ns`.
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
