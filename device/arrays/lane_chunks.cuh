// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Interleaved arrays: the lanes of a group get theirs in one warp chunk. Lanes whose sizes are alike share a
/// *sub-array*, in which their tiles alternate; sub-arrays lie side by side, those of the greatest alignment first, so
/// that there is no gap between them:
///
///     7 lanes, three sizes     | 4 lanes      | 2 lanes  | 1 |
///
/// The layouts are AlignMalloc's (Zhang et al., TPDS 2025, section V.A); that sizes are grouped is Orchard's.

#include "device/arrays/lane_place.cuh"
#include "device/large/chunk_free.cuh"
#include "uvm/geometry/layout.hpp"

namespace orchard::device {

/// One lane's part in its group's request for interleaved arrays. `offset` is of its sub-array.
struct lanes_request : chunk_request {
    std::uint32_t log_turn;       ///< log2 of the tile
    std::uint32_t log_unit;       ///< of what sizes are rounded up to: the tile; an OS page where rests have tail rows
    lane_map map{};               ///< of this lane's sub-array
    std::uint32_t position = 0;   ///< its number in it; where in a row it lies the heap's `order_of_lanes` says
    std::uint32_t rank = 0;       ///< among the lanes of the chunk, in the order in which their arrays lie
    std::uint64_t after = 0;      ///< `offset` of the lane of the next rank; `total` where there is none
    lane_mask alike = 0;          ///< lanes whose sizes are alike
    std::uint64_t most = 0;       ///< units of the largest and the
    std::uint64_t least = 0;      ///< smallest size among them
    std::uint32_t first = 0;      ///< the rank among them at which this lane's sub-array begins
    std::uint32_t log_align = 0;  ///< of the sub-array
    bool in_tail_rows = false;    ///< the sub-array's size may be no multiple of its alignment
};

/// log2 of `x`, which is not 0, rounded down.
ORCHARD_INLINE std::uint32_t log_of_units(std::uint64_t x) {
    const auto high = static_cast<std::uint32_t>(x >> 32);
    return static_cast<std::uint32_t>(high != 0 ? 32 + simt::highest_bit(high)
                                                : simt::highest_bit(static_cast<std::uint32_t>(x)));
}

/// `units` > 0 rounded up to a number of which there are 2^`log_steps` to each doubling; up to twice as many are exact.
/// So two sizes that are rounded to the same differ by less than 1 in 2^`log_steps`.
ORCHARD_FN inline std::uint64_t size_step(std::uint64_t units, std::uint32_t log_steps) {
    const std::uint64_t below = units - 1;
    if (below >> (log_steps + 1) == 0) {
        return units;
    }
    const std::uint32_t shift = log_of_units(below) - log_steps;
    return ((below >> shift) + 1) << shift;
}

/// The greatest of 64 bits over the lanes of `mask`. All of them.
inline ORCHARD_NOINLINE std::uint64_t greatest(lane_mask mask, std::uint64_t x) {
    const auto own = static_cast<std::uint32_t>(x >> 32);
    const std::uint32_t high = simt::reduce_max(mask, own);
    const std::uint32_t low = simt::reduce_max(mask, own == high ? static_cast<std::uint32_t>(x) : 0);
    return std::uint64_t{high} << 32 | low;
}

/// Finds the lanes whose sizes are alike. All lanes of a converged group.
///
/// Four steps to a doubling: what is reserved is under 25 % more than what was asked for. Eight where there are tail
/// rows, whose sub-arrays may have gaps before them.
inline ORCHARD_NOINLINE void group_by_size(lanes_request& r) {
    const std::uint64_t units = (r.bytes + (std::uint64_t{1} << r.log_unit) - 1) >> r.log_unit;
    r.alike = simt::match(r.mask, size_step(units, r.log_unit < r.log_turn ? 3 : 2));
    r.most = greatest(r.alike, units);
    r.least = ~greatest(r.alike, ~units);
}

/// Says with which tile lanes of `r.most` OS pages are to lie, where that is to be above 4 KiB: no larger than a lane;
/// and where there are several sub-arrays no larger than a sixteenth of one that has tail rows, as a gap of up to a
/// tile may lie before it. Whether there are tail rows is in `r.in_tail_rows`.
inline ORCHARD_NOINLINE std::uint32_t choose_large_tile(lanes_request& r) {
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(r.alike));
    const auto has_rest = [&](std::uint32_t log) {
        return lanes > 1 && (r.most & ((std::uint64_t{1} << (log - r.log_unit)) - 1)) != 0;
    };
    const auto at_most = [&](std::uint32_t log, std::uint64_t units) {
        const std::uint32_t other = r.log_unit + log_of_units(units | 1);
        return log < other ? log : other;
    };
    std::uint32_t log = at_most(r.log_turn, r.most);
    if (has_rest(log) && r.alike != r.mask) {
        log = at_most(log, r.most * lanes / 16);
    }
    r.in_tail_rows = has_rest(log);
    return log;
}

/// Divides lanes of the same size into sub-arrays whose widths are powers of two, by the binary digits of their number;
/// or into one wider than that, where that is at most a quarter more than they ask for.
/// @param max_row  bytes of a row at most
inline ORCHARD_NOINLINE void choose_width(lanes_request& r, std::uint32_t log, std::uint32_t max_row) {
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(r.alike));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(r.alike));
    std::uint32_t width = 1;
    while (width < lanes) {
        width *= 2;
    }
    // A power of two is one sub-array, or several of `max_row`; else each binary digit is one.
    const std::uint32_t whole = width * r.most * 4 <= lanes * r.least * 5 ? width : lanes;
    while (width > 1 && (width > whole || width << log > max_row)) {
        width /= 2;
    }
    std::uint32_t end = whole / width * width;
    r.first = rank / width * width;
    ORCHARD_NO_UNROLL
    while (rank >= end) {
        width /= 2;
        r.first = end;
        end += whole & width;
    }
    // One lane alone has nothing to alternate with. Its map differs from that of a linear array.
    r.map = lane_map::rows(width == 1 ? smallest_tile : static_cast<tile>(log), width);
}

/// Says how this lane's sub-array is laid out, and where in it the lane is.
inline ORCHARD_NOINLINE void choose_map(lanes_request& r, std::uint32_t max_row) {
    r.in_tail_rows = false;
    const std::uint32_t log = r.log_unit < r.log_turn ? choose_large_tile(r) : r.log_turn;
    if (r.in_tail_rows) {
        const auto lanes = static_cast<std::uint32_t>(simt::popcount(r.alike));
        r.map = lane_map::with_tail_rows(static_cast<tile>(log), lanes, r.most << r.log_unit);
        r.first = 0;
    } else {
        choose_width(r, log, max_row);
    }
    r.position = static_cast<std::uint32_t>(simt::rank_in(r.alike)) - r.first;
    const std::uint64_t alignment = r.map.size(0).alignment;
    r.log_align = log_of_units(alignment > r.alignment ? alignment : r.alignment);
}

/// Lays the sub-arrays side by side, and the lanes in the order of ranks. All lanes of a converged group.
///
/// Without tail rows sizes are multiples of alignments, all of them powers of two: those of the greatest alignment
/// first, there is no gap. Behind them those with tail rows.
inline ORCHARD_NOINLINE void place_arrays(lanes_request& r) {
    // Not 0, and the same for the lanes of a sub-array only; of one size the widest come first.
    std::uint32_t key = (r.in_tail_rows ? 0u : 1u << 16) | r.log_align << 10 |
                        static_cast<std::uint32_t>(simt::leader_of(r.alike)) << 5 | (31 - r.first);
    const std::uint64_t units = simt::mutation::is(fault::array_room) ? r.least : r.most;
    const std::uint64_t own = (r.map.size(units << r.log_unit).bytes + chunk_block_alignment - 1) >> chunk_unit_shift;
    std::uint32_t placed = 0;
    r.total = 0;
    ORCHARD_NO_UNROLL
    for (lane_mask left = r.mask; left != 0;) {
        const std::uint32_t next = simt::reduce_max(r.mask, key);
        const lane_mask members = simt::ballot(r.mask, key == next);
        const std::uint32_t log_align = next >> 10 & 63;
        const std::uint64_t align = std::uint64_t{1}
                                    << (log_align > chunk_unit_shift ? log_align - chunk_unit_shift : 0);
        r.total = (r.total + align - 1) & ~(align - 1);
        if (key == 0 && r.rank + 1 == placed && !simt::mutation::is(fault::array_after)) {
            r.after = r.total;
        }
        if (key == next) {
            key = 0;
            r.rank = placed + r.position;
            r.offset = r.total;
            r.after = r.total;
        }
        r.total += simt::shuffle(r.mask, own, simt::lowest_bit(members));
        placed += static_cast<std::uint32_t>(simt::popcount(members));
        left &= ~members;
    }
    if (r.rank + 1 == placed) {
        r.after = r.total;
    }
}

/// Says where each lane's array is to be, and how large the chunk. False where they are too large. All lanes of a
/// converged group.
///
/// A chunk under a segment begins at any leaf. Where rows of over 64 KiB want more, it takes a whole segment, if that
/// is at most a quarter more than was asked for; if not, the sub-arrays are made narrower, so that no row is so long.
inline ORCHARD_NOINLINE bool place_lanes(lanes_request& r) {
    // Before the sums, so that they cannot overflow.
    if (simt::ballot(r.mask, segments_for(r.bytes) > r.h.max_slabs || r.bytes > max_chunk_bytes) != 0) {
        return false;
    }
    group_by_size(r);
    choose_map(r, segment_bytes);
    place_arrays(r);
    const lane_mask beyond = simt::ballot(r.mask, std::uint64_t{1} << r.log_align > big_page_bytes);
    if (beyond != 0 && r.total < segment_bytes >> chunk_unit_shift) {
        const std::uint32_t asked = simt::reduce_add(r.mask, static_cast<std::uint32_t>(r.bytes));
        if (std::uint64_t{asked} * 5 < segment_bytes * 4) {
            choose_map(r, big_page_bytes);
            place_arrays(r);
        }
    }
    choose_shape(r, simt::ballot(r.mask, std::uint64_t{1} << r.log_align > big_page_bytes) != 0);
    return r.total <= max_chunk_bytes >> chunk_unit_shift && r.k + (r.leaves != 0 ? 1 : 0) <= r.h.max_slabs;
}

/// One chunk for the arrays of the group; this lane's sub-array of it in `r.block`, or null with the reason in `r.why`.
/// Any mask. Where there is no memory for all of them together, the halves of the group ask apart, as for blocks.
/// Cost: as `acquire`; a few collectives for each sub-array; a few stores of metadata by each lane.
inline ORCHARD_FN void allocate_lanes(lanes_request& r) {
    do {
        r.why = place_lanes(r) ? get_memory(r) : failure_reason::too_large;
        if (r.why == failure_reason::none) {
            return describe(r, {r.rank, r.after, interleaved_flag});
        }
    } while (split_group(r));
}

/// Finds the lane with number `position` in the sub-array that begins at `s.units` of the chunk that was found.
inline ORCHARD_NOINLINE void find_lane(block_search& s, std::uint32_t position) {
    const chunk_blocks blocks = blocks_of(s.h, s.chunk);
    // More lanes than there can be: something has been rewritten meanwhile.
    const std::uint32_t lanes = blocks.interleaved() && blocks.lanes() <= simt::warp_size ? blocks.lanes() : 0;
    std::uint32_t low = 0;
    std::uint32_t high = lanes;
    ORCHARD_NO_UNROLL
    while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        if (blocks.offset(middle) < s.units) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    s.block = low + position;
    if (s.block >= lanes || blocks.offset(s.block) != s.units || (s.live >> s.block & 1) == 0) {
        s.chunk = block_search::nothing;
    }
}

/// Frees the array of the lane with number `position` in the sub-array that begins at the address; the last lane of a
/// chunk puts its memory into the segment cache. Any lane, alone; never waits. False where there is no such array that
/// is allocated. Cost: five to thirteen loads, one atomic.
ORCHARD_INLINE bool free_lane(block_search& s, std::uint32_t position) {
    if (!is_in_heap(s)) {
        return false;
    }
    find_chunk(s);
    if (s.chunk != block_search::nothing) {
        look_at_live(s);
    }
    if (s.chunk != block_search::nothing) {
        find_lane(s, position);
    }
    return free_found(s);
}

}  // namespace orchard::device
