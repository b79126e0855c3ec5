// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The layout of a warp's arrays in their warp chunk: address arithmetic that accesses no memory.
///
/// `linear`: one array after another. `interleaved`: lanes alternate after one *tile*; the tiles of all W lanes at one
/// depth are a *row*. With a tile of g bytes, byte o of the lane at position l lies at
///
///     (o / g * W + l) * g + o % g
///
///     W = 4      row 0                                row 1
///     chunk     | lane 0 | lane 1 | lane 2 | lane 3 | lane 0 | lane 1 | lane 2 | lane 3 | ...
///     o         | 0..g-1 | 0..g-1 | 0..g-1 | 0..g-1 | g..2g-1| g..2g-1| g..2g-1| g..2g-1|
///
/// *Tail rows* hold the rest of each lane that is smaller than one tile, in rows of smaller tiles, 2^i x 4 KiB, largest
/// first. The size of a chunk is then the size of its lanes, rounded up to OS pages:
///
///     W = 4      64 KiB tiles          16 KiB tiles      4 KiB tiles       (84 KiB a lane)
///     chunk     | 0  | 1  | 2  | 3  | 0 | 1 | 2 | 3 |0|1|2|3|
///
/// Source: Zhang et al., AlignMalloc, TPDS 2025, section V-A: figure 6, equations (1) and (2).

#include <cstdint>
#include <type_traits>

#include "device/simt/assert.cuh"
#include "device/simt/config.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/geometry.hpp"

namespace orchard {

/// The unit that alternates between lanes, by its size: `b` bytes, `k` KiB. The value is log2 of the bytes.
enum class tile : std::uint8_t { b4 = 2, b8, b16, b32, b64, b128, b256, b512, k1, k2, k4, k8, k16, k32, k64 };

inline constexpr tile smallest_tile = tile::b4;
inline constexpr tile largest_tile = tile::k64;

/// Returns log2 of a tile's bytes: 2 to 16.
ORCHARD_INLINE constexpr std::uint32_t log_of(tile t) { return static_cast<std::uint32_t>(t); }
/// Returns the bytes of a tile.
ORCHARD_INLINE constexpr std::uint64_t bytes_of(tile t) { return std::uint64_t{1} << log_of(t); }
/// Returns true if there is a tile of `bytes` bytes.
ORCHARD_FN constexpr bool is_tile(std::uint64_t bytes) {
    return bytes >= bytes_of(smallest_tile) && bytes <= bytes_of(largest_tile) && (bytes & (bytes - 1)) == 0;
}

/// Returns the tile of `bytes` bytes, for which `is_tile` must hold.
ORCHARD_FN constexpr tile tile_of(std::uint64_t bytes) {
    ORCHARD_ASSERT(is_tile(bytes), "orchard: a tile is a power of two, 4 B to 64 KiB");
    return static_cast<tile>(simt::highest_bit(static_cast<std::uint32_t>(bytes)));
}

/// The requested layout: an option of a heap, or an argument of a call. Two bytes.
struct layout {
    enum class choice : std::uint8_t {
        automatic,    ///< the heap chooses
        linear,       ///< each lane's bytes in one piece: C++ pointers
        interleaved,  ///< lanes alternate after each tile
    };
    choice which = choice::automatic;
    tile turn = largest_tile;  ///< the tile, if `which` is `interleaved`

    static ORCHARD_FN constexpr layout automatic() { return {}; }
    static ORCHARD_FN constexpr layout linear() { return {choice::linear}; }
    static ORCHARD_FN constexpr layout interleaved(tile t) { return {choice::interleaved, t}; }

    friend ORCHARD_FN constexpr bool operator==(layout a, layout b) {
        return a.which == b.which && (a.which != choice::interleaved || a.turn == b.turn);
    }
};

/// The most lanes of a warp chunk.
inline constexpr std::uint32_t max_lanes = simt::warp_size;

/// Returns the offset, from the chunk's beginning, of byte `offset` of the lane at `position` < `width`; all rows have
/// tile `t`. Cost: a shift, two ANDs, two multiplications, two additions.
///
///     tile of 64 KiB, W = 4, position 2, byte 70,000: byte 4,464 of the lane's tile 1
///     offset: (1 * 4 + 2) * 65,536 + 4,464 = 397,680
ORCHARD_INLINE constexpr std::uint64_t interleaved_offset(tile t, std::uint32_t width, std::uint32_t position,
                                                          std::uint64_t offset) {
    const std::uint64_t g = bytes_of(t);
    return ((offset >> log_of(t)) * width + position) * g + (offset & (g - 1));
}

/// Returns the result of the paper's address translator, equations (1) and (2), computed as the paper writes it. Tests
/// compare all other functions with it.
///
///     OB = OF / 64 KiB
///     UVM_addr = User_addr + (OB x WS + Lane_ID - OB) x 64 KiB
///
/// @param base  the beginning of the warp's memory; OF = `user_address` - `base` is the offset in the lane's own bytes
/// @param warp_size  WS, the lanes that take part
/// @param t  64 KiB in the paper; here any tile
ORCHARD_FN constexpr std::uint64_t translate(std::uint64_t user_address, std::uint64_t base, std::uint32_t warp_size,
                                             std::uint32_t lane_id, tile t = tile::k64) {
    const std::uint64_t block_offset = (user_address - base) / bytes_of(t);
    return user_address + (block_offset * warp_size + lane_id - block_offset) * bytes_of(t);
}

/// A byte of a chunk, as its lane sees it.
struct lane_byte {
    std::uint32_t position;  ///< position of the lane
    std::uint64_t offset;    ///< offset in the lane's bytes
    friend ORCHARD_FN constexpr bool operator==(const lane_byte& a, const lane_byte& b) {
        return a.position == b.position && a.offset == b.offset;
    }
    friend ORCHARD_FN constexpr bool operator!=(const lane_byte& a, const lane_byte& b) { return !(a == b); }
};

/// Bytes and alignment of a warp chunk.
struct chunk_size {
    std::uint64_t bytes;
    std::uint64_t alignment;
    friend ORCHARD_FN constexpr bool operator==(const chunk_size& a, const chunk_size& b) {
        return a.bytes == b.bytes && a.alignment == b.alignment;
    }
    friend ORCHARD_FN constexpr bool operator!=(const chunk_size& a, const chunk_size& b) { return !(a == b); }
};

/// The least alignment of a lane's block, in bytes.
inline constexpr std::uint64_t lane_alignment = 16;

/// Maps the bytes of the lanes of an interleaved warp chunk to offsets in the chunk. Eight bytes; no function reads
/// memory.
///
/// With tail rows, the tile of byte o follows from its OS page u = o / 4 KiB and from the U pages of a lane. The
/// highest bit k in which u and U differ is set in U and not in u. Therefore u lies in the row for bit k of U, whose
/// tile has 2^k pages. If that is more than 64 KiB, u lies in one of the full rows.
///
///     84 KiB a lane: U = 21 = 0b10101, so rows of 16, 4 and 1 pages
///     u =  3 = 0b00011    differs first in bit 4    a tile of 64 KiB
///     u = 17 = 0b10001    differs first in bit 2    a tile of 16 KiB
///     u = 20 = 0b10100    differs first in bit 0    a tile of 4 KiB
///
/// If the lanes differ in length, the map is that of the common rows alone, and `pages` are a lane's pages in them; a
/// table in the chunk has the place of all others (uvm/geometry/ragged_rows.hpp).
///
/// If the lanes have one length and the chunk's tail rows lie elsewhere (`tail_policy::pooled`), the map is that of a
/// chunk in one piece. All tail rows are then moved by one distance, which the map does not know
/// (`device::tail_shift`).
struct lane_map {
    std::uint32_t pages = 0;       ///< OS pages of a lane if the last rows are tail rows; 0: all rows have the same
                                   ///< tile
    tile row_tile = largest_tile;  ///< tile of all rows except tail rows
    std::uint8_t width = 1;        ///< number of lanes, 1 to 32; need not be a power of two
    std::uint8_t ragged = 0;       ///< 0: the lanes have the same length; else 1 + `ragged_rows::log_step`, and
                                   ///< `pooled_flag` if the chunk's tail lies elsewhere

    static constexpr std::uint32_t pooled_flag = 0x20;

    /// Returns the map of one lane, whose bytes are contiguous.
    static ORCHARD_FN constexpr lane_map linear() { return {}; }

    /// Returns the map of `width` lanes whose rows all have tile `t`. The last tile of a lane is whole, whatever the
    /// lane's size.
    static ORCHARD_FN constexpr lane_map rows(tile t, std::uint32_t width) {
        ORCHARD_ASSERT(width >= 1 && width <= max_lanes, "orchard: a warp chunk has 1 to 32 lanes");
        return {0, t, static_cast<std::uint8_t>(width), 0};
    }

    /// Returns the map of `width` lanes of 1 to 2^43 bytes, with tail rows for the rest of each that is smaller than a
    /// tile. If tiles have 4 KiB or less, or if no rest is left, this equals `rows`. If the rest is one row and no full
    /// row precedes it, this equals `rows` with the tile of that row.
    static ORCHARD_FN constexpr lane_map with_tail_rows(tile t, std::uint32_t width, std::uint64_t lane_bytes) {
        const std::uint32_t pages = static_cast<std::uint32_t>((lane_bytes + os_page_bytes - 1) / os_page_bytes);
        if (width == 1 || t <= tile::k4 || pages % (bytes_of(t) / os_page_bytes) == 0) {
            return rows(t, width);
        }
        if (pages < bytes_of(t) / os_page_bytes && (pages & (pages - 1)) == 0) {
            return rows(tile_of(pages * os_page_bytes), width);
        }
        lane_map result = rows(t, width);
        result.pages = pages;
        return result;
    }

    /// Returns `ragged_rows::log_step`, if the lanes differ in length.
    [[nodiscard]] ORCHARD_INLINE constexpr std::uint32_t log_step() const { return (ragged & (pooled_flag - 1)) - 1; }
    /// Returns true if the lanes differ in length, and the chunk's tail lies elsewhere.
    [[nodiscard]] ORCHARD_INLINE constexpr bool has_pooled_rows() const { return (ragged & pooled_flag) != 0; }
    /// Returns the bytes of the rows before tail rows, if there are tail rows.
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t bytes_before_tail_rows() const {
        return (std::uint64_t{pages} * os_page_bytes & ~(bytes_of(row_tile) - 1)) * width;
    }

    /// Returns the tile of the row in which byte `offset` of every lane lies.
    [[nodiscard]] ORCHARD_INLINE constexpr tile tile_at(std::uint64_t offset) const {
        return pages == 0 ? row_tile : tile_of_page(static_cast<std::uint32_t>(offset / os_page_bytes));
    }

    /// Returns the tile of OS page `page` < `pages` of every lane, for a map with tail rows.
    [[nodiscard]] ORCHARD_INLINE constexpr tile tile_of_page(std::uint32_t page) const {
        const std::uint32_t log = log_of(tile::k4) + static_cast<std::uint32_t>(simt::highest_bit(page ^ pages));
        return static_cast<tile>(log < log_of(row_tile) ? log : log_of(row_tile));
    }

    /// Returns the offset, from the chunk's beginning, of byte `offset` of the lane at `position`.
    [[nodiscard]] ORCHARD_INLINE constexpr std::uint64_t offset_of(std::uint32_t position, std::uint64_t offset) const {
        return interleaved_offset(tile_at(offset), width, position, offset);
    }

    /// Returns the lane and its byte at `chunk_offset`: the inverse of `offset_of`. Cost: two divisions.
    [[nodiscard]] ORCHARD_FN constexpr lane_byte byte_at(std::uint64_t chunk_offset) const {
        // A row that begins at byte b of each lane begins at b * width, so the quotient lies in the same row.
        const tile t = tile_at(chunk_offset / width);
        const std::uint64_t row_begin = chunk_offset / width >> log_of(t) << log_of(t);
        const std::uint64_t in_row = chunk_offset - row_begin * width;
        return {static_cast<std::uint32_t>(in_row >> log_of(t)), row_begin + (in_row & (bytes_of(t) - 1))};
    }

    /// Returns the size and alignment for lanes of `lane_bytes` each. With tail rows, `lane_bytes` must be the size for
    /// which the map was made.
    ///
    /// The chunk is aligned to a whole row if `lane_ptr` can use the map (`pointable`), otherwise to a tile. With the
    /// alignment to a row, the position of a lane is a field of the address, so that a pointer needs no other word to
    /// find the next tile.
    [[nodiscard]] ORCHARD_FN constexpr chunk_size size(std::uint64_t lane_bytes) const {
        if (width == 1) {
            return {(lane_bytes + lane_alignment - 1) / lane_alignment * lane_alignment, lane_alignment};
        }
        const std::uint64_t unit = pages == 0 ? bytes_of(row_tile) : os_page_bytes;
        const std::uint64_t alignment = pointable() ? bytes_of(row_tile) * width : bytes_of(row_tile);
        return {(lane_bytes + unit - 1) / unit * unit * width, alignment < lane_alignment ? lane_alignment : alignment};
    }

    /// Returns true if the lane's position is a field of the address: W is a power of two and all rows have one tile
    /// size.
    [[nodiscard]] ORCHARD_FN constexpr bool pointable() const {
        return pages == 0 && ragged == 0 && (width & (width - 1)) == 0;
    }

    friend ORCHARD_FN constexpr bool operator==(const lane_map& a, const lane_map& b) {
        return a.pages == b.pages && a.row_tile == b.row_tile && a.width == b.width && a.ragged == b.ragged;
    }
    friend ORCHARD_FN constexpr bool operator!=(const lane_map& a, const lane_map& b) { return !(a == b); }
};

static_assert(sizeof(lane_map) == 8 && std::is_trivially_copyable_v<lane_map>);

}  // namespace orchard
