// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Interleaved arrays with tiles above 4 KiB: all lanes of the group share one sub-array, whatever their lengths.
///
///     place_large_tiles
///       place_equal       lanes of the same length: rows of all lanes, and tail rows
///       place_ragged      lanes of different lengths (uvm/geometry/ragged_rows.hpp)
///     mark_first_segment, write_row_table
///                         for these, after the chunk is there
///
/// Lengths count in OS pages. The chunk takes as many as its lanes, one for the table if there is one, and less than a
/// tile for the gap before that.

#include "device/arrays/lanes_request.cuh"

namespace orchard::device {

/// Returns log2 of the OS pages of the tile that the lanes ask for.
ORCHARD_INLINE std::uint32_t log_tile_asked(const lanes_request& r) { return r.log_turn - r.log_unit; }

/// Places lanes of the same length: sets `r.map`, `r.offset`, `r.total` and `r.log_align`. Each lane calls it for
/// itself; the result is the same in all. No memory access.
///
/// `lane_ptr` needs rows that begin at multiples of their length (`lane_map::pointable`). A chunk smaller than a
/// segment may begin at any leaf. If its rows are longer than a leaf, it takes a whole segment for their sake, provided
/// that this is at most a quarter more than the request; otherwise `lane_ptr` cannot point to these arrays. 12 lanes of
/// 128 KiB, 1.5 MiB, form rows of 12 tiles; 32 lanes of 56 KiB with tiles of 8 KiB, 1.75 MiB, take a segment.
inline ORCHARD_NOINLINE void place_equal(lanes_request& r, const ragged_rows& rows) {
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(r.mask));
    const auto pages = static_cast<std::uint32_t>(r.most);
    const auto turn = static_cast<tile>(r.log_unit + rows.log_tile);
    // A lane alone has nothing to alternate with. Its map still differs from that of a linear array.
    r.map = lanes == 1 ? lane_map::rows(smallest_tile, 1) : lane_map::with_tail_rows(turn, lanes, r.most << r.log_unit);
    chunk_size size = r.map.size(r.most << r.log_unit);
    if (size.alignment > big_page_bytes && size.bytes * 5 < segment_bytes * 4) {
        r.map.pages = pages;
        size = r.map.size(r.most << r.log_unit);
    }
    r.offset = 0;
    r.total = (size.bytes + chunk_block_alignment - 1) >> chunk_unit_shift;
    r.log_align = log_of_units(size.alignment);
}

/// Places lanes of different lengths: sets `r.map`, `r.offset`, `r.total` and `r.log_align`. All lanes of the group
/// call it. Cost: two reductions.
inline ORCHARD_NOINLINE void place_ragged(lanes_request& r, const ragged_rows& rows) {
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(r.mask));
    const std::uint32_t behind = r.pages - rows.common_pages;
    // Two sums of parts, so that neither overflows: a lane has at most 2^28 pages.
    const std::uint64_t high = simt::reduce_add(r.mask, behind >> 12);
    const std::uint64_t before = (high << 12) + simt::reduce_add(r.mask, behind & 0xfff) + 1;  // 1: the table
    const std::uint64_t to_common = (before + (1u << rows.log_tile) - 1) >> rows.log_tile << rows.log_tile;
    r.map = lane_map::rows(static_cast<tile>(r.log_unit + rows.log_tile), lanes);
    r.map.pages = rows.common_pages;
    r.map.ragged = static_cast<std::uint8_t>(rows.log_step + 1);
    constexpr std::uint32_t shift = log_of(tile::k4) - chunk_unit_shift;
    r.offset = (to_common - 1) << shift;
    r.total = (to_common + std::uint64_t{rows.common_pages} * lanes) << shift;
    r.log_align = r.log_unit + rows.log_tile;
}

/// Places the arrays of a group that asks for tiles above 4 KiB, in one sub-array. All lanes of a converged group call
/// it. Cost: two reductions, and those of `place_ragged`.
inline ORCHARD_NOINLINE void place_large_tiles(lanes_request& r) {
    r.pages = static_cast<std::uint32_t>((r.bytes + os_page_bytes - 1) / os_page_bytes);
    r.alike = r.mask;
    r.most = simt::reduce_max(r.mask, r.pages);
    r.least = ~simt::reduce_max(r.mask, ~r.pages) & 0xffffffffu;
    r.first = 0;
    r.position = static_cast<std::uint32_t>(simt::rank_in(r.mask));
    r.rank = r.position;
    const auto rows =
        ragged_rows::of(log_tile_asked(r), static_cast<std::uint32_t>(r.least), static_cast<std::uint32_t>(r.most));
    if (r.least == r.most) {
        place_equal(r, rows);
    } else {
        place_ragged(r, rows);
    }
    r.after = r.rank + 1 == static_cast<std::uint32_t>(simt::popcount(r.mask)) ? r.total : r.offset;
}

/// Marks the chunk's first segment as a chunk's, if the lanes' sub-array begins in a later one: otherwise no lane would
/// (`write_owners`), and a free would find no record (`has_record`). All lanes of the group call it, before `describe`:
/// the leader has acquired the memory, and the release of each lane's own mark in `write_owners` covers this one.
inline ORCHARD_NOINLINE void mark_first_segment(const lanes_request& r) {
    if (r.k != 0 && r.offset >> (segment_shift - chunk_unit_shift) != 0 && is_leader(r.mask)) {
        const std::uint32_t first = to_underlying(r.got.first);
        auto& d = r.h.descriptor(first);
        d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::chunk, 0, first));
    }
}

/// Writes the chunk's table, whose place is `r.block`. All lanes of the group call it, converged; it ends with a
/// barrier, so that any of them may read the table. Other threads get an array from one of these lanes, by a release
/// and an acquire of the program's own, which cover the table. Cost: 32 shuffles and 3 stores for each lane in a full
/// warp; up to 63 shuffles, and 64 stores of two words, in smaller groups.
inline ORCHARD_NOINLINE void write_row_table(const lanes_request& r) {
    auto& table = *static_cast<row_table*>(r.block);
    const std::uint32_t log_step = r.map.log_step();
    const std::uint32_t behind = r.pages - r.map.pages;
    const auto width = static_cast<std::uint32_t>(simt::popcount(r.mask));
    // In OS pages: the table is the last one before the common rows. Those in a tail elsewhere precede the segments.
    const auto in_segments = static_cast<std::uint32_t>(r.offset >> (log_of(tile::k4) - chunk_unit_shift)) + 1;
    const std::uint32_t to_common = in_segments + (r.map.has_pooled_rows() ? r.cut : 0);
    if (r.map.has_pooled_rows() && is_leader(r.mask)) {
        constexpr auto pages_a_leaf = static_cast<std::uint32_t>(big_page_bytes / os_page_bytes);
        table.cut = -static_cast<std::int32_t>(in_segments);
        table.shift = static_cast<std::int32_t>((r.tail - begin_of(r)) * pages_a_leaf + r.cut);
    }
    table.pages[position_of(r.h.order_of_lanes, width, r.position)] = behind;
    ORCHARD_NO_UNROLL
    for (std::uint32_t group = r.position; group - r.position < row_table::max_steps; group += width) {
        row_group step;
        row_group rest;
        std::uint32_t before_step = 0;  // pages of the steps before this group
        std::uint32_t all_steps = 0;
        std::uint32_t before_rest = 0;  // pages of the greater rests
        lane_mask left = r.mask;
        ORCHARD_NO_UNROLL
        for (std::uint32_t number = 0; number < width; ++number, left &= left - 1) {
            const std::uint32_t theirs = simt::shuffle(r.mask, behind, simt::lowest_bit(left));
            const std::uint32_t position = position_of(r.h.order_of_lanes, width, number);
            const std::uint32_t steps = theirs >> log_step;
            const std::uint32_t part = theirs & ((1u << log_step) - 1);
            step.positions |= (group < steps ? 1u : 0u) << position;
            before_step += (group < steps ? group : steps) << log_step;
            all_steps += steps << log_step;
            if (group < row_table::max_log_step) {
                rest.positions |= (part >> group & 1) << position;
                before_rest += part >> group >> 1 << group << 1;
            }
        }
        step.first = static_cast<std::int32_t>(before_step - to_common);
        rest.first = static_cast<std::int32_t>(all_steps + before_rest - to_common);
        if (group < row_table::max_steps) {
            table.steps[group] = step;
        }
        if (group < row_table::max_log_step) {
            table.rests[group] = rest;
        }
    }
    simt::sync(r.mask);
}

}  // namespace orchard::device
