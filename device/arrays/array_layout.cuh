// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Interleaved arrays: the lanes of a group get their arrays in one warp chunk. With tiles above 4 KiB, all lanes share
/// one *sub-array*, in which their tiles alternate (ragged_layout.cuh). With smaller tiles, the lanes of similar size
/// share one, so that `lane_ptr` can point into it. Sub-arrays are adjacent, in the order of decreasing alignment, so
/// that there are no gaps between them:
///
///     7 lanes, three sizes     | 4 lanes      | 2 lanes  | 1 |
///
/// The steps, each by all lanes of the group together:
///
///     allocate_lanes
///       place_lanes
///         place_large_tiles tiles above 4 KiB (ragged_layout.cuh); otherwise:
///         group_by_size     lanes of similar size; their greatest and least size
///         choose_width      width of the sub-array
///         place_arrays      order and offsets of the sub-arrays, length of the chunk
///         choose_shape      segments and tail (large/chunk_path.cuh)
///         cut_tail          does the tail lie elsewhere? (pooled_tail.cuh)
///       get_parts           the chunk: `get_memory` (large/chunk_path.cuh), twice if its tail lies elsewhere
///       describe            its record
///       write_row_table     the rows of lanes of different lengths, with tiles above 4 KiB
///
/// Example: four lanes want 40 KB, one 9 KB and two 8.5 KB, with tiles of 4 B. In tiles, the sizes are 10,240, 2,304
/// and 2,176, and round up to the steps 10,240, 2,560 and 2,560. The four lanes form a sub-array of width 4. The other
/// three get 2,304 tiles each; width 4 would reserve 9,216 tiles for 6,784, more than a quarter too much. They form
/// sub-arrays of widths 2 and 1.
///
/// The layouts are AlignMalloc's (Zhang et al., TPDS 2025, section V.A); the grouping by size is Orchard's.

#include "device/arrays/pooled_tail.cuh"
#include "device/arrays/ragged_layout.cuh"

namespace orchard::device {

/// Returns `units` > 0 rounded up to a step. There are four steps in each doubling; numbers up to 8 are exact. Two
/// sizes with the same result thus differ by less than a quarter. No memory access.
///
/// The steps are 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...: 17 to 20 give 20.
ORCHARD_FN inline std::uint64_t size_step(std::uint64_t units) {
    constexpr std::uint32_t log_steps = 2;
    const std::uint64_t below = units - 1;
    if (below >> (log_steps + 1) == 0) {
        return units;
    }
    const std::uint32_t shift = log_of_units(below) - log_steps;
    return ((below >> shift) + 1) << shift;
}

/// Returns the greatest of the 64-bit values of all lanes of `mask`. All of them call it. Cost: two reductions, since
/// the hardware reduces 32 bits at once: first the upper halves, then the lower halves of the lanes with the greatest
/// upper half.
inline ORCHARD_NOINLINE std::uint64_t greatest(lane_mask mask, std::uint64_t x) {
    const auto own = static_cast<std::uint32_t>(x >> 32);
    const std::uint32_t high = simt::reduce_max(mask, own);
    const std::uint32_t low = simt::reduce_max(mask, own == high ? static_cast<std::uint32_t>(x) : 0);
    return std::uint64_t{high} << 32 | low;
}

/// Finds the lanes of similar size: sets `r.alike`, `r.most` and `r.least`. All lanes of a converged group call it.
/// Cost: a match, four reductions. With four steps to a doubling, the memory reserved is less than 25 % more than the
/// request.
inline ORCHARD_NOINLINE void group_by_size(lanes_request& r) {
    const std::uint64_t units = (r.bytes + (std::uint64_t{1} << r.log_unit) - 1) >> r.log_unit;
    r.alike = simt::match(r.mask, size_step(units));
    r.most = greatest(r.alike, units);
    // The least value is the complement of the greatest complement.
    r.least = ~greatest(r.alike, ~units);
}

/// Divides lanes of one size into sub-arrays whose widths are powers of two, according to the binary digits of their
/// number, because `lane_ptr` needs such widths. If rounding the number up to a power of two takes at most a quarter
/// more than the request, they get one sub-array of that width instead. Sets `r.map`, `r.first`, `r.position` and
/// `r.log_align`. All lanes of the group call it, after `group_by_size`. No memory access.
///
///     21 lanes     ranks 0-15 | 16-19 | 20        widths 16, 4, 1
///     7 lanes      ranks 0-6                      width 8, one position stays empty, if 8 * most <= 1.25 * 7 * least
///
/// @param max_row  the most bytes of a row
inline ORCHARD_NOINLINE void choose_width(lanes_request& r, std::uint32_t max_row) {
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(r.alike));
    const auto rank = static_cast<std::uint32_t>(simt::rank_in(r.alike));
    std::uint32_t width = 1;
    while (width < lanes) {
        width *= 2;
    }
    // A power of two is one sub-array, or several if its rows would exceed `max_row`. Otherwise each binary digit is
    // one.
    const std::uint32_t whole = width * r.most * 4 <= lanes * r.least * 5 ? width : lanes;
    while (width > 1 && (width > whole || width << r.log_turn > max_row)) {
        width /= 2;
    }
    // `end` is the rank behind the sub-arrays of the present width. A lane beyond it goes on to the next smaller binary
    // digit.
    std::uint32_t end = whole / width * width;
    r.first = rank / width * width;
    ORCHARD_NO_UNROLL
    while (rank >= end) {
        width /= 2;
        r.first = end;
        end += whole & width;
    }
    // A sub-array of one lane has nothing to alternate with. Its map still differs from that of a linear array.
    r.map = lane_map::rows(width == 1 ? smallest_tile : static_cast<tile>(r.log_turn), width);
    r.position = rank - r.first;
    const std::uint64_t alignment = r.map.size(0).alignment;
    r.log_align = log_of_units(alignment > r.alignment ? alignment : r.alignment);
}

/// Places the sub-arrays one after the other, and ranks the lanes in that order: sets `r.offset`, `r.rank`, `r.after`
/// and `r.total`. All lanes of a converged group call it. Cost: a reduction, a ballot and a shuffle for each sub-array.
///
/// Sizes are multiples of alignments, and these are powers of two: with decreasing alignments there is no gap.
///
///     key   15      10 9       5 4          0
///           | log_align | leader | 31 - first |     the greatest key is placed next; `log_align` is not 0
///
/// Example: lanes 0 to 2 want about 9 KB, lanes 3 to 6 want 40 KB, with tiles of 4 B. All sub-arrays are aligned to 16
/// B, so that the greater leader (3) comes first, then the smaller `first`. In units of 256 B:
///
///     sub-array   4 lanes of 40 KB | 2 lanes of 9 KB | 1 lane of 9 KB | total
///     offset      0                | 640             | 712            | 748
///     ranks       0 1 2 3          | 4 5             | 6              |
///     after       0 0 0 640        | 640 712         | 748            |
inline ORCHARD_NOINLINE void place_arrays(lanes_request& r) {
    // A sort key: not 0, and different for each sub-array. Of one size, the widest sub-array comes first.
    std::uint32_t key = r.log_align << 10 | static_cast<std::uint32_t>(simt::leader_of(r.alike)) << 5 | (31 - r.first);
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
        // This lane was the last to be placed before. The sub-array that is placed now begins where the record's next
        // entry says.
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

/// Places the arrays of a group with tiles of at most 4 KiB, or of elements above that. All lanes of a converged group
/// call it. No memory access.
///
/// A chunk smaller than a segment may begin at any leaf. If rows longer than 64 KiB need more alignment, the chunk
/// takes a whole segment, provided that this is at most a quarter more than the request. Otherwise the sub-arrays are
/// made narrower, so that no row exceeds 64 KiB. (32 lanes of 16 KiB with tiles of 4 KiB have rows of 128 KiB; a
/// segment would be four times the request, and they get two sub-arrays of 16 lanes.)
inline ORCHARD_NOINLINE void place_small_tiles(lanes_request& r) {
    group_by_size(r);
    choose_width(r, segment_bytes);
    place_arrays(r);
    const lane_mask beyond = simt::ballot(r.mask, std::uint64_t{1} << r.log_align > big_page_bytes);
    if (beyond != 0 && r.total < segment_bytes >> chunk_unit_shift) {
        // In 32 bits: the chunk is under 2 MiB, and so is each lane's array.
        const std::uint32_t asked = simt::reduce_add(r.mask, static_cast<std::uint32_t>(r.bytes));
        if (std::uint64_t{asked} * 5 < segment_bytes * 4) {
            choose_width(r, big_page_bytes);
            place_arrays(r);
        }
    }
}

/// Chooses where each lane's array lies, and the size of the chunk. Returns false if the chunk would be too large. All
/// lanes of a converged group call it. No memory access beyond the lane's own.
inline ORCHARD_NOINLINE bool place_lanes(lanes_request& r) {
    // Checked before the sizes are added, so that the sums cannot overflow.
    if (simt::ballot(r.mask, segments_for(r.bytes) > r.h.max_slabs || r.bytes > max_chunk_bytes) != 0) {
        return false;
    }
    if (r.log_unit < r.log_turn) {
        place_large_tiles(r);
    } else {
        place_small_tiles(r);
    }
    choose_shape(r, simt::ballot(r.mask, std::uint64_t{1} << r.log_align > big_page_bytes) != 0);
    const bool fits = r.total <= max_chunk_bytes >> chunk_unit_shift && r.k + (r.leaves != 0 ? 1 : 0) <= r.h.max_slabs;
    if (fits) {
        cut_tail(r);
    }
    return fits;
}

/// Gets one chunk for the arrays of the group. Sets `r.block` to this lane's sub-array, or leaves it null and sets
/// `r.why`. If there is no memory for the whole group, its halves try separately, as for blocks, and so on down to
/// single lanes. All lanes of a converged group call it; after a split, each half goes on by itself.
///
/// Errors: too_large, and those of `get_memory`. Cost: as `acquire`, twice if the tail lies elsewhere; a few
/// collectives for each sub-array; a few stores of metadata by each lane.
inline ORCHARD_FN void allocate_lanes(lanes_request& r) {
    do {
        if (place_lanes(r)) {
            get_parts(r);
        } else {
            r.why = failure_reason::too_large;
        }
        if (r.why == failure_reason::none) {
            mark_first_segment(r);
            describe(r, {r.rank, r.after, interleaved_flag});
            if (r.map.ragged != 0) {
                write_row_table(r);
            }
            return;
        }
    } while (split_group(r));
}

/// Finds the lane with number `position` in the sub-array that begins at `s.units` of the chunk found: sets `s.block`
/// to its rank, or `s.chunk` to `nothing` if no such array is in use. One lane calls it alone. Cost: up to ten loads.
///
/// Lanes of one sub-array have the same offset in the record, and offsets ascend. The binary search therefore finds the
/// first rank of the sub-array; the position is added to it. With offsets 0 0 0 0 640 640 712, units 640 and position 1
/// give rank 4 + 1 = 5.
inline ORCHARD_NOINLINE void find_lane(block_search& s, std::uint32_t position) {
    const chunk_blocks blocks = blocks_of(s.h, s.chunk);
    // If there are more lanes than possible, another thread has rewritten the record.
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
    // A position beyond the sub-array's lanes leads to another offset, and a second free to a bit that is clear.
    if (s.block >= lanes || blocks.offset(s.block) != s.units || (s.live >> s.block & 1) == 0) {
        s.chunk = block_search::nothing;
    }
}

/// Frees the array of the lane with number `position` in the sub-array that begins at the address. The lanes that call
/// it together free together (`free_found`). Returns false if there is no such array in use. Any lanes call it, in any
/// divergence; it never waits for the host. Cost: up to fourteen loads, and `free_found`.
///
/// The order is that of a block's free (large/chunk_free.cuh): `live` is read before the rest of the record, because a
/// record without live lanes may be in the process of being written for the next chunk.
ORCHARD_INLINE bool free_lane(block_search& s, std::uint32_t position) {
    if (is_in_heap(s)) {
        find_chunk(s);
    }
    if (s.chunk != block_search::nothing) {
        look_at_live(s);
    }
    if (s.chunk != block_search::nothing) {
        find_lane(s, position);
    }
    return free_found<true>(s);
}

}  // namespace orchard::device
