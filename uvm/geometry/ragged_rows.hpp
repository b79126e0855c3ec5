// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Rows of lanes whose arrays differ in length, in one warp chunk.
///
/// The rows that all lanes fill are *common rows*; `lane_map` describes them without a table. A lane's pages behind
/// them lie in rows of those lanes that are that long. A *step* is 2^step OS pages of a lane, one tile or more. Row
/// group n holds step n of each lane that has all of it. The rest of a lane, less than a step, is divided by its binary
/// digits: group i of the rests holds 2^i pages of each lane whose rest has bit i. In each group, lanes alternate after
/// a tile, or after 2^i pages if that is less, in the order of their positions:
///
///     4 lanes, tiles of 64 KiB (16 pages), of 37, 16, 34 and 21 pages      step: one tile
///
///     common rows, one         | 0 | 1 | 2 | 3 |           16 pages each; behind them the lanes have 21, 0, 18 and 5
///     step 0                   | 0 | 2 |                   lanes with 16 pages more
///     rests, bit 2             | 0 | 3 |                   4 pages each: the rests are 5, 0, 2 and 5 = 0b101, 0, 0b10,
///     0b101 rests, bit 1             | 2 |                       2 pages rests, bit 0             | 0 | 3 | 1 page
///
/// The chunk begins with the steps. The rests follow, in the order of decreasing size, so that each is aligned to its
/// size. Then come a gap of less than a tile, the table, and the common rows, at which the lanes' arrays point:
///
///     chunk    | steps: tiles | rests: tiles of 2^i pages | gap | table | common rows: tiles |
///                                                               ^ record of the chunk: the lanes' arrays begin here
///                                                                       ^ `lane_array::chunk`
///
/// One entry of the table, of 8 bytes, gives the place of a page behind the common rows, if the page lies in a step;
/// three reads give it if the page lies in the rest.
///
/// A chunk whose tail lies elsewhere (`tail_policy::pooled`) is cut at a multiple of 2 MiB before its end. The table
/// and the common rows then lie in its segments; what precedes the cut, steps first, lies in the tail:
///
///     tail     | steps: tiles |      segments     | steps | rests | gap | table | common rows |
///              places below `cut`: `shift` pages further
///
/// Source: Zhang et al., AlignMalloc, TPDS 2025, section V-A: tiles of 64 KiB in turn, and rests of 2^i x 4 KiB. Rows
/// for lanes of different length are Orchard's own.

#include <cstdint>

#include "device/simt/config.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/geometry.hpp"
#include "uvm/geometry/layout.hpp"

namespace orchard {

/// A group of rows: the lanes in it, and where it begins.
struct row_group {
    std::uint32_t positions = 0;  ///< a bit for each position that has a part in these rows
    std::int32_t first = 0;       ///< where they begin, in OS pages from the beginning of the common rows; negative
};

/// The table of a chunk whose lanes differ in length. It fills the OS page before the common rows, in part.
struct row_table {
    static constexpr std::uint32_t max_steps = 32;
    static constexpr std::uint32_t max_log_step = 24;  ///< 2^28 pages are the longest chunk, hence below 32 steps
    row_group steps[max_steps];
    row_group rests[max_log_step];
    std::uint32_t pages[max_lanes];  ///< OS pages of each position behind the common rows
    // Only if the chunk's tail lies elsewhere (`lane_map::has_pooled_rows`):
    std::int32_t cut;    ///< places below this one lie in the tail,
    std::int32_t shift;  ///< so many OS pages further than if the chunk lay in one piece
};
static_assert(sizeof(row_table) <= os_page_bytes);

/// The numbers from which the rows of a chunk follow.
struct ragged_rows {
    std::uint32_t log_tile;      ///< log2 of the OS pages of a tile: 0 to 4
    std::uint32_t log_step;      ///< log2 of the OS pages of a step: `log_tile` at least
    std::uint32_t common_pages;  ///< OS pages of each lane in common rows: whole tiles

    /// Returns the rows for lanes of `least` to `most` OS pages that ask for tiles of `log_asked`.
    ///
    /// The tile is as asked for, but at most the least lane's length, so that this lane has a part in the rows. A lane
    /// that is much shorter than the longest does not make the others' tiles small: the tile may always have a fourth
    /// of the greatest length. Steps are tiles, or as long as it takes for the longest lane to have fewer than
    /// `max_steps`.
    static ORCHARD_FN constexpr ragged_rows of(std::uint32_t log_asked, std::uint32_t least, std::uint32_t most) {
        const auto log_least = static_cast<std::uint32_t>(simt::highest_bit(least));
        const auto log_most = static_cast<std::uint32_t>(simt::highest_bit(most));
        const std::uint32_t log_tile = log_least + 1 > log_most ? log_least : log_most - 1;
        ragged_rows result{log_tile < log_asked ? log_tile : log_asked, 0, 0};
        result.common_pages = least >> result.log_tile << result.log_tile;
        const std::uint32_t behind = most - result.common_pages;
        const std::uint32_t log_behind = behind != 0 ? static_cast<std::uint32_t>(simt::highest_bit(behind)) : 0;
        // 2^5 = `max_steps`
        result.log_step = log_behind > result.log_tile + 4 ? log_behind - 4 : result.log_tile;
        return result;
    }

    /// Returns the bit in `pages` of the group of rests that holds `page`, for a page in the rest of a lane of `pages`.
    [[nodiscard]] ORCHARD_FN constexpr std::uint32_t rest_of(std::uint32_t page, std::uint32_t pages) const {
        return static_cast<std::uint32_t>(simt::highest_bit((page ^ pages) & ((1u << log_step) - 1)));
    }

    /// Returns the place of a page in a group, in OS pages from the beginning of the common rows.
    /// @param log_part  log2 of the pages of a lane in this group
    /// @param page      the page of the lane, of which the lowest `log_part` bits count
    [[nodiscard]] ORCHARD_INLINE std::int32_t place_in(const row_group& group, std::uint32_t log_part,
                                                       std::uint32_t position, std::uint32_t page) const {
        const std::uint32_t log = log_part < log_tile ? log_part : log_tile;
        const std::uint32_t in_part = page & ((1u << log_part) - 1);
        const auto width = static_cast<std::uint32_t>(simt::popcount(group.positions));
        const auto rank = static_cast<std::uint32_t>(simt::popcount(group.positions & ((1u << position) - 1)));
        const std::uint32_t behind = (((in_part >> log) * width + rank) << log) + (in_part & ((1u << log) - 1));
        return group.first + static_cast<std::int32_t>(behind);
    }

    /// Returns log2 of the OS pages of the tile that holds a page behind the common rows. Arguments as `place_of`.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t log_tile_of(const row_table& table, std::uint32_t position,
                                                           std::uint32_t page) const {
        if ((table.steps[page >> log_step].positions >> position & 1) != 0) {
            return log_tile;
        }
        const std::uint32_t bit = rest_of(page, table.pages[position]);
        return bit < log_tile ? bit : log_tile;
    }

    /// Returns the place of a page behind the common rows, in OS pages from their beginning. Reads one to three words
    /// of the table.
    /// @param page  the page of the lane, counted from the end of the common rows
    [[nodiscard]] ORCHARD_INLINE std::int32_t place_of(const row_table& table, std::uint32_t position,
                                                       std::uint32_t page) const {
        const row_group step = table.steps[page >> log_step];
        if ((step.positions >> position & 1) != 0) {
            return place_in(step, log_step, position, page);
        }
        const std::uint32_t bit = rest_of(page, table.pages[position]);
        return place_in(table.rests[bit], bit, position, page);
    }
};

}  // namespace orchard
