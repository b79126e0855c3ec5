// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Events of kernels, written into the ring of event_ring.cuh. All of it is off the paths of a heap that is not traced.
///
///     report_block     an event of a block: the lanes that are here take their tickets by one atomic; waits for room
///     note_event       an event of a slow path, by one lane: a slab, a shortage; never waits
///
/// The order of the tickets is an order in which the events can be replayed: the ticket of an allocation is taken when
/// the block is there, that of a free before the block is freed. If one thread frees a block, and another one then gets
/// its memory, the bitmap word or the record through which the memory passes orders the two tickets, too: the free's
/// release comes after the one, the claim's acquire before the other. The barriers here extend this to the lanes of a
/// group, whose leader takes the tickets.
///
/// Few functions, none of which calls another: they are called at the ends of deep chains of calls, where each further
/// level would add to the registers of every kernel.

#include "device/group/leader.cuh"
#include "device/state/heap_state.cuh"

namespace orchard::device {

/// A report on its way, kept in local memory between the phases.
struct event_call {
    event_ring& ring;
    lane_mask group = 0;
    device_event kind;
    std::uint32_t detail;
    std::uint64_t at;
    std::uint64_t bytes;
    std::uint64_t ticket = 0;       ///< of the group's first lane, then of this lane
    std::uint64_t end = 0;          ///< behind the tickets of the group; 0: the group has none
    std::uint64_t progress = 0;     ///< the host's, as last seen
    std::uint64_t progress_at = 0;  ///< when it last changed, in ns; 0: not yet read

    ORCHARD_FN event_call(event_ring& r, device_event k, std::uint64_t where, std::uint64_t n, std::uint32_t what)
        : ring{r}, kind{k}, detail{what}, at{where}, bytes{n} {}
};

/// Reads the host's progress, and notes for other groups how far there is room. Returns the progress. Cost: a read of
/// host memory, an atomic.
ORCHARD_INLINE std::uint64_t read_progress(event_ring& r) {
    // Acquire: pairs with the host's release after it has read the slots; they may be written from here on. The release
    // of `raise` hands that on to the groups that acquire `room`.
    const std::uint64_t progress = r.progress->load<order::acquire>();
    r.room.raise<order::release>(progress + r.slots);
    return progress;
}

/// Writes an event into the slot of a ticket. Each lane calls it for itself. Cost: four stores to host memory. Relaxed:
/// each word carries its mark, and the event tells of nothing but itself.
ORCHARD_INLINE void write_slot(const event_ring& r, std::uint64_t ticket, std::uint64_t at, std::uint64_t bytes,
                               device_event kind, std::uint32_t detail) {
    const std::uint64_t mark = event_words::mark_of(ticket >> r.log_slots);
    simt::host_word<std::uint64_t>* word = r.words + (ticket & (r.slots - 1));
    word->store<order::relaxed>(event_words::word(mark, simt::clock_ns()));
    word += r.slots;
    word->store<order::relaxed>(event_words::word(mark, at));
    word += r.slots;
    word->store<order::relaxed>(event_words::word(mark, bytes));
    word += r.slots;
    const auto thread = static_cast<std::uint32_t>(simt::position().global_thread());
    word->store<order::relaxed>(event_words::word(mark, event_words::what(kind, detail, thread)));
}

/// Sets the group of a report: the lanes that are here for the same ring, as converged lanes may use different heaps.
/// Any lanes call it.
inline ORCHARD_NOINLINE void form_group_of(event_call& e) {
    e.group = simt::match(simt::converge(), reinterpret_cast<std::uintptr_t>(&e.ring));
    // The blocks that the lanes have got are there before the leader takes the tickets.
    if (!simt::mutation::is(fault::event_sync)) {
        simt::sync(e.group);
    }
}

/// Counts the time since the host's progress last changed as waited; nothing at the group's first look. In parts, as
/// the begin of the wait would be a field more, and thus a larger stack of every kernel.
ORCHARD_INLINE void count_time(event_call& e) {
    if (e.progress_at != 0) {
        e.ring.waited_ns.fetch_add<order::relaxed>(simt::clock_ns() - e.progress_at);
    }
}

/// Takes the tickets of the group, and waits until there is room for them: sets `e.ticket` and `e.end`. Gives up, and
/// breaks the ring, if the host reads nothing for `timeout_ns`; then `e.end` is 0, and the events of the group are
/// lost. The tickets stay taken, so that the host sees a gap, at which the trace ends. The leader calls it alone. Cost:
/// two loads and an atomic whose result is awaited; once for each time that the ring was filled, a read of host memory.
/// A group that waits counts its wait, by atomics whose results are not awaited.
inline ORCHARD_NOINLINE void take_tickets(event_call& e) {
    const auto count = static_cast<std::uint32_t>(simt::popcount(e.group));
    if (e.ring.is_broken.load<order::relaxed>() != 0) {
        e.ring.lost.fetch_add<order::relaxed>(count);
        return;
    }
    // Relaxed: what orders the tickets of two threads is what hands the block from one to the other (see above).
    e.ticket = e.ring.ticket.fetch_add<order::relaxed>(count);
    e.end = e.ticket + count;
    if (e.end <= e.ring.room.load<order::acquire>() ||
        simt::mutation::is(fault::event_room)) {  // pairs with `read_progress`
        return;
    }
    ORCHARD_NO_UNROLL
    while (e.end != 0) {
        const std::uint64_t progress = read_progress(e.ring);
        if (e.end <= progress + e.ring.slots) {
            break;
        }
        if (progress != e.progress || e.progress_at == 0) {
            count_time(e);
            e.progress = progress;
            e.progress_at = simt::clock_ns();
        } else if (simt::clock_ns() - e.progress_at > e.ring.timeout_ns) {
            e.ring.is_broken.store<order::relaxed>(1);
        }
        // Relaxed: the flag carries nothing. A group that sees it late waits once more.
        if (e.ring.is_broken.load<order::relaxed>() != 0) {
            e.end = 0;
        }
        simt::pause(1000);
    }
    // A group that found room at its first look has not waited.
    if (e.progress_at != 0) {
        count_time(e);
        e.ring.waits.fetch_add<order::relaxed>(1);
    }
}

/// Gives each lane of the group its ticket, and writes its slot. All lanes of the group call it.
///
/// The barrier comes before the frees that follow, which come after the tickets; and before the slots are written, so
/// that the acquire of the leader holds for all lanes.
inline ORCHARD_NOINLINE void write_slots(event_call& e) {
    const bool has_room = from_leader(e.group, static_cast<std::uint32_t>(e.end != 0)) != 0;
    e.ticket = from_leader(e.group, e.ticket) + static_cast<std::uint64_t>(simt::rank_in(e.group));
    if (!simt::mutation::is(fault::event_sync)) {
        simt::sync(e.group);
    }
    if (has_room) {
        write_slot(e.ring, e.ticket, e.at, e.bytes, e.kind, e.detail);
    }
}

/// Reports an event of a block, in a heap that reports those of blocks. Any lanes call it, in any divergence; those
/// that are here together share an atomic. May wait for the host, until a deadline.
ORCHARD_INLINE void report(event_call& e) {
    form_group_of(e);
    if (is_leader(e.group)) {
        take_tickets(e);
    }
    write_slots(e);
}
inline ORCHARD_NOINLINE void report_block(const heap_view& h, device_event kind, std::uint64_t at, std::uint64_t bytes,
                                          std::uint32_t detail) {
    event_call e(*h.events, kind, at, bytes, detail);
    report(e);
}

/// Notes an event of a slow path, in a heap that reports events; without room, or if other lanes are faster several
/// times, the event is lost, and counted. One lane calls it alone. It never waits.
/// @param where  a segment, or the bytes of a request that failed
inline ORCHARD_NOINLINE void note_event(const heap_view& h, device_event kind, std::uint64_t where,
                                        std::uint32_t detail) {
    constexpr int attempts = 8;
    event_ring& r = *h.events;
    std::uint64_t ticket = r.ticket.load<order::relaxed>();
    ORCHARD_NO_UNROLL
    for (int i = 0; i < attempts; ++i) {
        // Acquire: as in `take_tickets`.
        if (ticket >= r.room.load<order::acquire>() && ticket >= read_progress(r) + r.slots) {
            break;
        }
        if (r.ticket.compare_exchange<order::relaxed>(ticket, ticket + 1)) {
            const bool of_slab = kind != device_event::shortage;
            return write_slot(r, ticket, of_slab ? where << segment_shift : 0, of_slab ? segment_bytes : where, kind,
                              detail);
        }
    }
    r.lost_notes.fetch_add<order::relaxed>(1);
}

}  // namespace orchard::device
