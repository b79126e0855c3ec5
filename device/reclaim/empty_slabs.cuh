// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Turns slabs without a page in use into segments again: on shortage all of a class; and when a class grows while the
/// segment cache is empty, a few of some other class. Without the latter, a class would keep segments that only other
/// classes need.
///
///     on shortage; in a trim class by class         a class has grown, the segment cache is empty
///     retire_classes                                collect_empty_slabs
///       retire_class                                  choose_empty_class    a class whose last slab looks empty
///         next_empty_slab                             scan_entries          one batch of its entries
///           choose_entry, scan_entries                choose_entry, looks_empty, retire_slab, put_retired
///         retire_slab, put_retired
///
/// No count of used pages is kept for a slab: it would cost an atomic for each free. Emptiness is found by reading
/// instead. A word that reads 0 is a hint; `slab_retire` decides.

#include "device/segments/segment_request.cuh"

namespace orchard::device {

/// Reads the next entries of the table of `d.page_class`, from its end downwards, several a lane at once, and keeps
/// those that may be empty slabs. Relaxed: the group that retires a slab checks its descriptor before and after it
/// claims the pages. All lanes of the group call it. Cost: two dependent memory accesses, each of four loads a lane.
///
/// A slab may be empty if its first bitmap word is 0. A full warp reads the 128 entries below `cursor`: lane 0 reads
/// cursor - 1, cursor - 33, cursor - 65 and cursor - 97.
inline ORCHARD_NOINLINE void scan_entries(reclaim_state& d) {
    const heap_view& h = d.h;
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(d.mask));
    const auto width = static_cast<std::uint32_t>(simt::popcount(d.mask));
    std::uint32_t entries[reclaim_state::entries_at_once];
    ORCHARD_UNROLL
    for (std::uint32_t i = 0; i < reclaim_state::entries_at_once; ++i) {
        const std::uint32_t below = i * width + rank;
        entries[i] = below < d.cursor ? h.table(d.page_class)[d.cursor - 1 - below].load<order::relaxed>() : 0;
    }
    ORCHARD_UNROLL
    for (std::uint32_t i = 0; i < reclaim_state::entries_at_once; ++i) {
        const bool maybe = is_slab_entry(entries[i]) && h.bitmap(entries[i] - 1)[0].load<order::relaxed>() == 0;
        d.entries[i] = maybe ? entries[i] : 0;
    }
    const std::uint32_t all = reclaim_state::entries_at_once * width;
    d.cursor -= all < d.cursor ? all : d.cursor;
}

/// Chooses the slab with the highest index among those found, as `d.segment`; returns false if there is none. Highest
/// first, so that `free_place` can lower `spread`, below which searches probe. All lanes of the group call it. The
/// entries of a lower i have higher indices in all lanes, and for one i those of a lower lane have.
inline ORCHARD_NOINLINE bool choose_entry(reclaim_state& d) {
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = 0; i < reclaim_state::entries_at_once; ++i) {
        const lane_mask holders = simt::ballot(d.mask, d.entries[i] != 0);
        if (holders != 0) {
            const int lane = simt::lowest_bit(holders);
            d.segment = simt::shuffle(d.mask, d.entries[i], lane) - 1;
            if (simt::lane_id() == lane) {
                d.entries[i] = 0;
            }
            return true;
        }
    }
    return false;
}

/// Finds the next slab of `d.page_class` that may be empty, from the table's end downwards, as `d.segment`; returns
/// false at the end. All lanes of the group call it. Cost: reads one word of each slab.
inline ORCHARD_FN bool next_empty_slab(reclaim_state& d) {
    ORCHARD_NO_UNROLL
    while (!choose_entry(d)) {
        if (d.cursor == 0) {
            return false;
        }
        scan_entries(d);
    }
    return true;
}

/// Retires the slab `d.segment` if it is empty; returns whether it did. All lanes of the group call it.
inline ORCHARD_NOINLINE bool retire_slab(reclaim_state& d) { return slab_retire(d.h, d.mask, d.page_class, d.segment); }

/// Puts the segment of a retired slab into the segment cache. All lanes of the group call it. The barrier at the end of
/// `slab_end` lets the leader release what all lanes have acquired with their words.
inline ORCHARD_NOINLINE void put_retired(reclaim_state& d) {
    if (d.h.reports_notes() && is_leader(d.mask)) {
        note_event(d.h, device_event::slab_retired, d.segment, d.page_class);
    }
    release_segments(d.h, d.mask, {segment_index{d.segment}, 1});
    ++d.retired;
}

/// Retires every slab of `d.page_class` that has no page in use, and puts their segments into the segment cache. All
/// lanes of the group call it. Cost: as `retire_empty_slabs`.
inline ORCHARD_FN void retire_class(reclaim_state& d) {
    d.cursor = from_leader(d.mask, d.h.state->slabs[d.page_class].count.load<order::relaxed>());
    ORCHARD_UNROLL
    for (std::uint32_t& entry : d.entries) {
        entry = 0;
    }
    ORCHARD_NO_UNROLL
    while (next_empty_slab(d)) {
        if (retire_slab(d)) {
            put_retired(d);
        }
    }
}

/// Returns whether the class may have a slab without a page in use: it has many slabs, or the first bitmap word of one
/// of its few slabs is 0. One lane calls it alone. Relaxed, as `scan_entries`. Cost: three dependent memory accesses.
inline ORCHARD_NOINLINE bool may_have_empty(const heap_view& h, std::uint32_t page_class) {
    constexpr std::uint32_t few = 4;
    const std::uint32_t count = h.state->slabs[page_class].count.load<order::relaxed>();
    std::uint32_t entries[few];
    ORCHARD_UNROLL
    for (std::uint32_t i = 0; i < few; ++i) {
        entries[i] = i < count ? h.table(page_class)[i].load<order::relaxed>() : 0;
    }
    bool maybe = count > few;
    ORCHARD_UNROLL
    for (const std::uint32_t entry : entries) {
        maybe = maybe || (is_slab_entry(entry) && h.bitmap(entry - 1)[0].load<order::relaxed>() == 0);
    }
    return maybe;
}

/// Sets `d.pending`: bit c for each class c that may have an empty slab. All lanes of the group call it. Cost of a full
/// warp: two looks, since each lane looks at a class of its own.
inline ORCHARD_NOINLINE void find_classes(reclaim_state& d) {
    const auto width = static_cast<std::uint32_t>(simt::popcount(d.mask));
    d.pending = 0;
    ORCHARD_NO_UNROLL
    for (std::uint32_t first = 0; first < class_count; first += width) {
        const std::uint32_t own = first + static_cast<std::uint32_t>(simt::rank_in(d.mask));
        const bool maybe = own < class_count && may_have_empty(d.h, own);
        const std::uint64_t bit = maybe ? std::uint64_t{1} << own : 0;
        d.pending |= simt::reduce_or(d.mask, static_cast<std::uint32_t>(bit));
        d.pending |= std::uint64_t{simt::reduce_or(d.mask, static_cast<std::uint32_t>(bit >> 32))} << 32;
    }
}

/// Retires the empty slabs of all classes, as `retire_class`. All lanes of the group call it. Most classes have few
/// slabs and no empty one; `find_classes` leaves these out. Cost: `find_classes`, and `retire_class` for each class
/// that may have an empty slab.
inline ORCHARD_FN void retire_classes(reclaim_state& d) {
    find_classes(d);
    ORCHARD_NO_UNROLL
    while (d.pending != 0) {
        d.page_class = static_cast<std::uint32_t>(simt::lowest_bit(d.pending));
        d.pending &= d.pending - 1;
        retire_class(d);
    }
}

/// `retire_class` for callers that have no `reclaim_state`; returns the number of slabs retired. All lanes of a
/// converged group call it. Cost: reads one word of each slab; two atomics for each word of an empty one. The kernel
/// behind `heap::trim` calls it with one warp for each class.
inline ORCHARD_FN std::uint32_t retire_empty_slabs(const heap_view& h, lane_mask mask, std::uint32_t page_class) {
    reclaim_state d(h, mask);
    d.page_class = page_class;
    retire_class(d);
    return d.retired;
}

// --- a few slabs, while the segment cache is empty ---

/// Chooses a class whose last slab looks empty: sets `d.page_class`, and `d.cursor` to the end of its slabs. Returns
/// whether there is one. Each lane reads two classes, from a random class on, so that a whole warp covers all: 64 looks
/// at 56 classes. All lanes of the group call it. Cost: three dependent memory accesses (`spread`, the entry, the first
/// word); six if the first class of each lane has no such slab.
///
/// Only the last slab of a class is looked at: a look at every slab would take too long before a request that has its
/// page already can return.
inline ORCHARD_NOINLINE bool choose_empty_class(reclaim_state& d) {
    constexpr std::uint32_t looks = 2;
    const heap_view& h = d.h;
    const auto width = static_cast<std::uint32_t>(simt::popcount(d.mask));
    const std::uint32_t start = from_leader(d.mask, mix(simt::noise()) % class_count);
    std::uint32_t own = 0;
    std::uint32_t end = 0;
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = 0; i < looks && end == 0; ++i) {
        own = (start + i * width + static_cast<std::uint32_t>(simt::rank_in(d.mask))) % class_count;
        const std::uint32_t spread = h.state->slabs[own].spread.load<order::relaxed>();
        const std::uint32_t entry = spread != 0 ? h.table(own)[spread - 1].load<order::relaxed>() : 0;
        const bool maybe = is_slab_entry(entry) && h.bitmap(entry - 1)[0].load<order::relaxed>() == 0;
        end = maybe ? spread : 0;
    }
    const lane_mask holders = simt::ballot(d.mask, end != 0);
    if (holders == 0) {
        return false;
    }
    const int lane = simt::lowest_bit(holders);
    d.page_class = simt::shuffle(d.mask, own, lane);
    d.cursor = simt::shuffle(d.mask, end, lane);
    return true;
}

/// Returns whether no page of the slab `d.segment` seems to be in use. Retiring a slab that is in use would claim its
/// free pages for a moment, which other groups would miss. All lanes of the group call it. Cost: a load for each 64
/// pages, divided among the lanes, up to the first round with a page in use. On shortage (`retire_class`) this look is
/// left out: a request that misses a page then scans once more before it fails.
inline ORCHARD_NOINLINE bool looks_empty(const reclaim_state& d) {
    const std::uint32_t words = class_words(d.page_class);
    const auto width = static_cast<std::uint32_t>(simt::popcount(d.mask));
    auto* bitmap = d.h.bitmap(d.segment);
    bool empty = true;
    ORCHARD_NO_UNROLL
    for (std::uint32_t begin = 0; begin < words && empty; begin += width) {
        const std::uint32_t word = begin + static_cast<std::uint32_t>(simt::rank_in(d.mask));
        const bool used = word < words && bitmap[word].load<order::relaxed>() != 0;
        empty = simt::ballot(d.mask, used) == 0;
    }
    return empty;
}

/// If the segment cache is empty, retires empty slabs of one class, as many as a refill would bring, and puts their
/// segments into the segment cache. A group that has created a slab calls it, with all lanes converged. It never waits
/// for the host. Cost: one load if the segment cache is not empty.
inline ORCHARD_NOINLINE void collect_empty_slabs(const heap_view& h, lane_mask mask) {
    reclaim_state d(h, mask);
    if (from_leader(mask, cache_level(h)) != 0 || h.cache_target == 0 || !choose_empty_class(d)) {
        return;
    }
    scan_entries(d);
    ORCHARD_NO_UNROLL
    while (d.retired < d.h.refill_batch && choose_entry(d)) {
        if (looks_empty(d) && retire_slab(d)) {
            put_retired(d);
        }
    }
}

}  // namespace orchard::device
