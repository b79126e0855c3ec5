// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Creates slabs. The lane that reserves an index of a class's table gets a segment for it; lanes that need the same
/// index wait for the result. The lanes of a warp that create slabs get their segments by one request to the host.
///
/// An entry of the table is 0 (empty), `growing_entry` (a lane has reserved the index), or segment + 1 (a slab). A
/// reservation ends with a slab (`slab_publish`) or, if no segment was got, with 0:
///
///           reserve_index                     slab_publish
///     0 --------------------> growing_entry -----------------> segment + 1
///     ^                             |                               |
///     +----- no segment was got ----+                               |
///     +---------------- slab_leaves_table (a retirement) -----------+
///
/// Lanes that wait at `growing_entry` must learn why it became 0 again. `slab_table_head::failure` tells them:
///
///     31            8 7      0
///     |   failures   | reason |     failures: number of failures to open a slab of the class; reason 0: memory is
///                                   available again
///
/// A lane reads the number before it waits. If the entry is 0 afterwards and the number has changed, the reason applies
/// to this lane as well. If the number has not changed, a slab appeared and was retired again, or a lane that only
/// wanted to grow ahead gave the index up; the waiting lane then reserves the index itself.
///
///     open_wanted                 all searching lanes of a warp
///       await_reclaims            for groups whose scan found nothing
///       reserve_wanted            each lane its index
///       get_segments              one run for all lanes that have reserved an index, else one segment for each
///       clear_slabs, settle_slab  the slab, or the reason for having none
///       await_slabs               the slabs of others, after all own ones

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

/// Reads the sample of the class, and halves the weight of old probes. One lane calls it alone. Cost: a load; a
/// compare-and-swap if the sample is large. If the swap fails, a later search halves the sample.
inline ORCHARD_FN fill_sample read_sample(const heap_view& h, std::uint32_t page_class) {
    auto& word = h.state->slabs[page_class].sample;
    std::uint64_t found = word.load<order::relaxed>();
    const fill_sample sample = fill_sample::unpack(found);
    if (sample.words >= fill_sample::max_words) {
        word.compare_exchange<order::relaxed>(found, fill_sample::pack(sample.words / 2, sample.free / 2));
    }
    return sample;
}

/// Returns whether the caller shall create a slab of the class ahead of need, since random probes say that the class is
/// nearly full. A new sample then begins, so that the next slab needs new probes. One lane calls it alone. Of several
/// groups that see the same sample, the compare-and-swap lets one grow the class.
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

/// Creates a slab at `index` ahead of need if the class is nearly full and the segment cache can spare a segment: at
/// least a quarter of the target must remain; else asks for more segments, for the next call. One lane calls it alone.
/// It never waits for the host. Cost if nothing is to be done: up to four loads. `index` is `spread`, the first index
/// behind all slabs. It is reserved after all checks, because other groups that need the index wait for it from then
/// on.
inline ORCHARD_NOINLINE void grow_ahead(const heap_view& h, std::uint32_t page_class, std::uint32_t index) {
    if (index >= h.max_slabs || h.table(page_class)[index].load<order::relaxed>() != 0 ||
        !read_sample(h, page_class).is_tight(class_pages(page_class))) {
        return;
    }
    if (cache_level(h) * 4 <= h.cache_target) {
        if (known_lack(h, 0) == failure_reason::none) {
            refill_cache(h, lane_mask{1} << simt::lane_id());
        }
        return;
    }
    if (!begin_growing_ahead(h, page_class) || reserve_index(h, page_class, index) != 0) {
        return;
    }
    const lane_mask alone = lane_mask{1} << simt::lane_id();
    segment_run run;
    if (!cache_take(h, alone, 1, &run)) {
        if (!simt::mutation::is(fault::reserved_index)) {
            // Release: pairs with the acquires in `reserve_index` and `look_at_awaited`. No failure is noted in
            // `failure`, since this lane did not ask the host; groups that wait here then try themselves.
            h.table(page_class)[index].store<order::release>(0);
        }
        return;
    }
    note_served(h);
    clear_alone(h, page_class, run);
    slab_publish(h, page_class, index, to_underlying(run.first));
    refill_cache(h, alone);
}

/// The progress of a lane that needs a slab (`open_slabs`).
///
///     none       the lane needs no slab, or looks again at the index
///     wanted     the lane needs the slab at `index`
///     reserved   the lane has reserved the index, and needs a segment
///     got        it has a segment, or a reason for having none
///     awaited    another lane has reserved the index
///     over       there is a slab, or `why` says why not
enum class opening_step : std::uint32_t { none, wanted, reserved, got, awaited, over };

/// The state of a lane that needs a slab at an index, kept in local memory between the phases of `open_slabs`. Values
/// are this lane's own, unless a comment names the group.
struct slab_opening {
    const heap_view& h;
    lane_mask here;   ///< all searching lanes of the warp
    lane_mask group;  ///< those that ask the same heap for the same class
    std::uint32_t page_class;
    std::uint64_t reclaim = 0;  ///< the group's: the reclaim after which a failure is final; 0: no scan has failed yet
    std::uint64_t started = 0;  ///< the search's: time when this lane first read the clock, in ns; 0: not yet
    // The phases set all others before they use them, so that a search that opens no slab stores nothing for them.
    opening_step step;
    std::uint32_t index;     ///< the index of the class's table, below `max_slabs`
    std::uint32_t word;      ///< the bitmap word with the pages that the lane wants if it creates the slab
    std::uint64_t bits;      ///< these pages; after the creation, those that the lane has claimed
    bool made;               ///< this lane created the slab
    failure_reason why;      ///< the result: why there is no slab
    std::uint32_t failures;  ///< count of failures of the class before this lane reserved the index
    std::uint32_t segment;   ///< the segment that the lane got
    lane_mask turns;         ///< of all lanes: those that have not had their turn
    lane_mask asking;        ///< lanes that make a request for segments together with this lane
    lane_mask served;        ///< those of `asking` that a request for a run serves
    std::uint32_t count;     ///< segments of the request; 1: for one lane
    failure_reason found;    ///< its result
    mailbox::grant got;      ///< and the segments

    ORCHARD_FN slab_opening(const heap_view& heap, lane_mask searching, lane_mask own_group, std::uint32_t of_class)
        : h{heap}, here{searching}, group{own_group}, page_class{of_class} {}

    /// Begins an opening. The lane needs no slab yet.
    ORCHARD_INLINE void begin() {
        step = opening_step::none;
        made = false;
        why = failure_reason::none;
    }
    /// Ends this lane's opening without a slab.
    ORCHARD_INLINE void fail(failure_reason reason) {
        why = reason;
        step = opening_step::over;
    }
};

/// Begins turns: the lanes with `on`, one after the other. All lanes of `o.here` call it and what follows, together.
///
///     for (begin_turns(o, on); o.turns != 0; end_turn(o)) {
///         if (is_turn_of(o, mask)) {      // the lane whose turn it is belongs to `mask`, which has this lane
///             ...                         // all lanes of that mask, converged
///         }
///     }
inline ORCHARD_NOINLINE void begin_turns(slab_opening& o, bool on) { o.turns = simt::ballot(o.here, on); }
ORCHARD_INLINE bool is_turn_of(const slab_opening& o, lane_mask mask) {
    return (mask >> simt::lowest_bit(o.turns) & 1) != 0;
}
inline ORCHARD_NOINLINE void end_turn(slab_opening& o) {
    o.turns &= o.turns - 1;
    simt::sync(o.here);
}

/// Returns whether the mailbox knows already that no segment can be got, and sets `o.why`. Otherwise each group of a
/// warp would find that out by itself, one after the other. Memory in the chunk store may serve the group
/// (`take_spilled`). Each lane calls it for itself. Cost: usually three loads.
inline ORCHARD_NOINLINE bool is_known_unserved(slab_opening& o) {
    if (cache_level(o.h) + not_negative(o.h.state->stored_leaves.word.load<order::relaxed>()) == 0) {
        o.why = o.h.mailbox.known_rejection(leaves_per_segment);
    }
    return o.why != failure_reason::none;
}

/// Returns whether it is known that no segment can be got after the reclaim that the group needs, and sets `o.why`.
/// Each lane calls it for itself. The note must be behind this reclaim or a later one: an older note may have been
/// written before memory was freed that this reclaim has found.
inline ORCHARD_NOINLINE bool is_exhausted(slab_opening& o) {
    o.why = known_lack(o.h, o.reclaim);
    return o.why != failure_reason::none;
}

/// Returns whether the search has lasted for longer than a group waits for the host (`patience_ns`). The first call
/// begins to count. Each lane calls it for itself. Cost: the clock.
inline ORCHARD_NOINLINE bool is_late(slab_opening& o) {
    const std::uint64_t now = simt::clock_ns();
    o.started = o.started != 0 ? o.started : now;
    return now - o.started > o.h.mailbox.patience_ns();
}

/// Reserves the index, if a lane wants it: sets `o.step`. Each lane calls it for itself. Cost: a few loads, and two
/// atomics if the index is empty.
inline ORCHARD_NOINLINE void reserve_wanted(slab_opening& o) {
    if (o.step != opening_step::wanted) {
        return;
    }
    if ((o.reclaim != 0 && is_exhausted(o)) || is_known_unserved(o)) {
        return o.fail(o.why);
    }
    (void)is_late(o);  // the time counts from here, so that it covers the requests of this warp, too
    // Acquire, so that the entry is read after this count. In the opposite order, a failure between the two reads would
    // be in the count already: this lane would not recognise it, and would ask the host in vain.
    o.failures = slab_failure::unpack(o.h.state->slabs[o.page_class].failure.load<order::acquire>()).count;
    const std::uint32_t entry = reserve_index(o.h, o.page_class, o.index);
    o.step = entry == 0 ? opening_step::reserved : entry == growing_entry ? opening_step::awaited : opening_step::over;
}

/// Chooses the requests for runs. A heap in which two lanes or more have reserved an index gets one request: all lanes
/// that ask this heap make it together, `o.asking`, and it serves the lanes `o.served`. All lanes of `o.here` call it.
/// Lanes that need a reclaim are not served: their failure is final, and must be that of a request for one segment.
inline ORCHARD_NOINLINE void choose_runs(slab_opening& o) {
    o.asking = simt::match(o.here, reinterpret_cast<std::uintptr_t>(o.h.state));
    o.served = o.asking & simt::ballot(o.here, o.step == opening_step::reserved && o.reclaim == 0);
    o.count = static_cast<std::uint32_t>(simt::popcount(o.served));
    begin_turns(o, o.count > 1 && is_leader(o.asking));
}

/// Chooses the next request for a single segment, for the lowest lane that has reserved an index and has no result yet,
/// by its group. All lanes of `o.here` call it.
inline ORCHARD_NOINLINE void choose_single(slab_opening& o) {
    o.asking = o.group;
    o.count = 1;
    begin_turns(o, o.step == opening_step::reserved);
}

/// Makes the request whose turn it is, by the lanes that ask. All lanes of `o.here` call it.
inline ORCHARD_NOINLINE void make_request(slab_opening& o) {
    if (is_turn_of(o, o.asking)) {
        o.found = acquire(o.h, o.asking, {o.count, 0, 0, o.count == 1 ? o.reclaim : 0}, &o.got);
    }
}

/// Takes the result of the request, and ends its turn: each lane that it served has a segment now, or the reason for
/// having none. If there was no run, the lanes keep their step, and ask for single segments, which may lie in several
/// places, or be free although the commit for a run is blocked. If there is no single segment, and the failure is not
/// final, the lanes of the group end together. All lanes of `o.here` call it.
inline ORCHARD_NOINLINE void take_segments(slab_opening& o) {
    const lane_mask reserved = simt::ballot(o.here, o.step == opening_step::reserved);
    if (is_turn_of(o, o.asking)) {
        const bool single = o.count == 1;
        const bool all = single && o.reclaim == 0 && is_shortage(o.found);
        const lane_mask served = !single ? o.served : all ? o.group & reserved : lowest_one(o.turns);
        const bool ends = o.found == failure_reason::none || single || o.found == failure_reason::closing;
        if ((served >> simt::lane_id() & 1) != 0 && ends) {
            o.why = o.found;
            o.segment = to_underlying(o.got.first) + static_cast<std::uint32_t>(simt::rank_in(served));
            o.step = opening_step::got;
        }
    }
    end_turn(o);
}

/// Gets a segment for each lane that has reserved an index: one run for all lanes of a heap, or one after the other if
/// there is no such run. All lanes of `o.here` call it. Cost: `acquire` for each request.
ORCHARD_INLINE void get_segments(slab_opening& o) {
    ORCHARD_NO_UNROLL
    for (choose_runs(o); o.turns != 0; take_segments(o)) {
        make_request(o);
    }
    ORCHARD_NO_UNROLL
    for (choose_single(o); o.turns != 0; choose_single(o)) {
        make_request(o);
        take_segments(o);
    }
}

/// Clears the bitmap words of the segments that lanes have got, one after the other, each by all lanes that ask the
/// same heap for the same class. All lanes of `o.here` call it, after a barrier behind the acquires.
inline ORCHARD_NOINLINE void clear_slabs(slab_opening& o) {
    const bool mine = o.step == opening_step::got && o.why == failure_reason::none && o.h.clears_metadata &&
                      o.h.cleared_words[o.segment].load<order::relaxed>() < class_words(o.page_class);
    for (begin_turns(o, mine); o.turns != 0; end_turn(o)) {
        const std::uint32_t segment = simt::shuffle(o.here, o.segment, simt::lowest_bit(o.turns));
        if (is_turn_of(o, o.group)) {
            clear_new_words(o.h, o.group, o.page_class, segment);
        }
    }
}

/// Ends the reservation of an index: publishes the slab, or empties the index and notes the failure. Each lane calls it
/// for itself. Sets `o.made`, and `o.bits` to the pages that the lane has claimed.
///
/// On failure, the reason is noted before the index is emptied. A waiting lane acquires the entry before it reads the
/// reason: if it sees the 0, it sees the reason as well, so that the accesses to `failure` can be relaxed.
inline ORCHARD_NOINLINE void settle_slab(slab_opening& o) {
    if (o.step != opening_step::got) {
        return;
    }
    auto& failure = o.h.state->slabs[o.page_class].failure;
    const auto before = slab_failure::unpack(failure.load<order::relaxed>());
    if (o.why == failure_reason::none) {
        // The lane claims its pages before the slab is published, so that the slab is not empty and no group retires
        // it. A late claimer of the segment's former slab may still hold some bits for a moment.
        o.bits &= simt::mutation::is(fault::maker_pages) ? 0 : ~set_bits(o.h.bitmap(o.segment)[o.word], o.bits);
        slab_publish(o.h, o.page_class, o.index, o.segment);
        if (before.why != failure_reason::none) {
            failure.fetch_and<order::relaxed>(~slab_failure::reason_bits);  // memory is available again
        }
        o.made = true;
    } else {
        failure.store<order::relaxed>(before.next(o.why));
        // Release: pairs with the acquires in `reserve_index` and `look_at_awaited`.
        o.h.table(o.page_class)[o.index].store<order::release>(0);
    }
    o.step = opening_step::over;
}

/// Looks once at the index that another lane has reserved: ends this lane's opening if there is a slab or a reason for
/// having none, or sends the lane back to the index if that is empty again. Each lane calls it for itself. Cost: a
/// load; a few more at the end.
///
/// If the index is empty, either the other lane got no segment, or its slab was retired again. If it got none, this
/// lane would get none either, unless it needs a later reclaim: a shortage that another group met does not count then,
/// since that group may have asked before this reclaim.
inline ORCHARD_NOINLINE void look_at_awaited(slab_opening& o) {
    const std::uint32_t entry = o.h.table(o.page_class)[o.index].load<order::acquire>();
    if (entry == growing_entry) {
        if (!simt::mutation::is(fault::maker_deadline) && is_late(o)) {
            o.fail(failure_reason::service_not_responding);
        }
        return;
    }
    o.step = opening_step::over;
    if (entry != 0) {
        return;
    }
    const auto now = slab_failure::unpack(o.h.state->slabs[o.page_class].failure.load<order::relaxed>());
    if (now.count != o.failures && now.why != failure_reason::none && (o.reclaim == 0 || !is_shortage(now.why))) {
        return o.fail(now.why);
    }
    o.step = opening_step::none;
}

/// Waits for the slabs that other lanes create. All lanes of `o.here` call it, together, so that none of them keeps
/// another one from going on. It comes after all of their own slabs: no lane waits while others wait for it.
inline ORCHARD_NOINLINE void await_slabs(slab_opening& o) {
    ORCHARD_NO_UNROLL
    for (;;) {
        if (o.step == opening_step::awaited) {
            look_at_awaited(o);
        }
        if (simt::ballot(o.here, o.step == opening_step::awaited) == 0) {
            return;
        }
        simt::pause(200);
    }
}

/// Waits for the reclaims that groups need, one after the other. All lanes of `o.here` call it. It comes before any
/// index is reserved, because other groups would wait for the index.
ORCHARD_INLINE void await_reclaims(slab_opening& o) {
    ORCHARD_NO_UNROLL
    for (begin_turns(o, o.step == opening_step::wanted && o.reclaim != 0); o.turns != 0; end_turn(o)) {
        if (is_turn_of(o, o.group)) {
            await_reclaim(o.h, o.group, o.reclaim);
        }
    }
}

/// Gets the slabs that lanes want (`opening_step::wanted`): each lane finds its slab, creates it, or waits until
/// another lane has created it. The result of a lane is in `o.step`, `o.made` and `o.why`. All lanes of `o.here` call
/// it, converged. Cost: a round trip to the host for all of them, if the segment cache has no run for them; after a
/// failure, one for each of them.
///
/// Errors, in `o.why`: those of `acquire`, also those that another group got; service_not_responding if another lane
/// has not ended its reservation, and the search has lasted for `patience_ns`.
ORCHARD_INLINE void open_wanted(slab_opening& o) {
    await_reclaims(o);
    reserve_wanted(o);
    get_segments(o);
    clear_slabs(o);
    settle_slab(o);
    await_slabs(o);
}

}  // namespace orchard::device
