// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The record of a warp chunk: which lanes have not freed their blocks yet, and where each lane's block begins.
///
///     chunk of k segments and a tail       record: that of the first segment
///     | segment | segment | ## tail, a portion: leaf 0 to n-1 of the next segment |
///     chunk of k segments, tail elsewhere  record: that of the first segment
///     | segment | segment |      | other portions | ## | other portions |
///     chunk of a tail alone                record: that of the portion's first leaf
///     | other portions | ## | other portions |
///
/// Only chunks of interleaved arrays have their tail elsewhere (`tail_policy::pooled`): their addresses are translated.
/// Every array begins in the segments, so that a free finds the chunk as if it had no tail.
///
/// `live` is the only word that several threads write at the same time. It is stored last when a chunk is made, and
/// releases the record; the lane that clears its last bit owns the chunk's memory:
///
///     record     publish_live        one bit for each      clear_live, by each      live == 0:
///     written -- (release) --------> lane that got   ----- lane that frees    ----> the last of them owns
///                                    a block               (acq_rel)                the memory
///
/// While `live` is 0, the memory's next owner may rewrite the record. A reader therefore loads `live` first (acquire).
/// If it is not 0, the record is complete, and stays as it is until the last block has been freed; but the owner of the
/// last block may raise the end of that block and the number of segments (large/extend.cuh).

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/portion.hpp"

namespace orchard::device {

/// Every block of a chunk begins at a multiple of this; records count in this unit.
inline constexpr std::uint64_t chunk_block_alignment = 256;
inline constexpr int chunk_unit_shift = 8;

/// A flag in `lanes`: the chunk holds interleaved arrays and no blocks. A search for a block then finds more lanes than
/// there can be, and fails; only `free_array_of_lane` frees an array.
inline constexpr std::uint32_t interleaved_flag = 0x80;

/// A flag in `leaves`: the tail does not lie behind the segments, but where `tail` says.
inline constexpr std::uint32_t pooled_tail_flag = 0x80;

/// The record of a chunk that has whole segments. Lane i of the group owns the units [offset[i], offset[i + 1]) of the
/// chunk, counted from its first byte; `live` has a bit for each lane that has not freed. Lanes are numbered by their
/// rank in the group, so that a group of lanes 3, 8 and 9 has the blocks 0, 1 and 2:
///
///     blocks         | 1 MiB        | 100 B   | 3 MiB           |       lanes    3
///     offset [units]   0              4096      4097              16385   segments 2 (of 8,192 units), leaves 1
///
/// In a chunk of interleaved arrays, offset[i] is where the sub-array that holds lane i's array begins. The lanes of
/// one sub-array are consecutive, in the order of their positions in it:
///
///     sub-arrays   | 4 lanes       | 2     | 1 |      lanes    7, flagged
///     offset         0  0  0  0      9  9    12  15
struct chunk_record {
    simt::device_word<std::uint32_t> live;  ///< bit i: lane i has not freed
    simt::plain<std::uint32_t> lanes;       ///< number of lanes, and `interleaved_flag`
    simt::plain<std::uint32_t> segments;    ///< number of whole segments; not 0 while the record is in use
    simt::plain<std::uint32_t> leaves;      ///< leaves of the tail, and `pooled_tail_flag`
    simt::plain<std::uint32_t> slab_index;  ///< if the segment is a slab: its index in the slab table
    simt::plain<std::uint32_t> offset[simt::warp_size + 1];  ///< [lanes]: the end of the last block
    simt::plain<std::uint32_t> tail;  ///< with `pooled_tail_flag`: the tail's first leaf, counted from the heap's first
};

/// The record of a chunk that is one portion. Such a chunk is smaller than 2 MiB, so that 16 bits suffice for an
/// offset; a word holds two.
///
///     31       16 15       0           31   16 15    8 7             7 6     0
///     | offset 1 | offset 0 |  shape:  | stamp | leaves | interleaved | lanes |
///
/// A record is not cleared before its first use. The stamp identifies the heap (`heap_view::stamp`): a record with
/// another stamp was never written by this heap, whatever its other fields contain. `keep_late_tail` also keeps such a
/// record, for a tail that no group has got yet: `leaves` is its length, and offsets[0] links to the next such tail.
struct portion_record {
    simt::device_word<std::uint32_t> live;                        ///< as `chunk_record::live`
    simt::plain<std::uint32_t> shape;                             ///< see above
    simt::plain<std::uint32_t> offsets[simt::warp_size / 2 + 1];  ///< word i / 2 has those of lanes i and i + 1, i even

    static ORCHARD_FN constexpr std::uint32_t shape_of(std::uint32_t stamp, std::uint32_t lanes, std::uint32_t leaves) {
        return stamp << 16 | leaves << 8 | lanes;
    }
    static ORCHARD_FN constexpr std::uint32_t leaves_of(std::uint32_t shape) { return shape >> 8 & 0xff; }
    static ORCHARD_FN constexpr bool is_stamped(std::uint32_t shape, std::uint32_t stamp) {
        return shape >> 16 == stamp;
    }
};
static_assert(leaves_per_segment <= 0xff && (simt::warp_size | interleaved_flag) <= 0xff, "8 bits each in `shape`");
static_assert(segment_bytes >> chunk_unit_shift <= 0xffff, "an offset in a portion has 16 bits");

/// A chunk's record of either kind, for reading where registers do not matter. One lane calls its functions alone,
/// after it has read `live`, or the host calls them on a copy.
class chunk_blocks {
public:
    explicit ORCHARD_FN chunk_blocks(const chunk_record& r) : whole_{&r} {}
    explicit ORCHARD_FN chunk_blocks(const portion_record& r) : part_{&r} {}

    /// Returns the number of lanes that got a block or an array. More than 32 if another thread has rewritten the
    /// memory meanwhile.
    [[nodiscard]] ORCHARD_FN std::uint32_t lanes() const { return flagged_lanes() & ~interleaved_flag; }
    /// Returns whether the lanes got interleaved arrays and no blocks.
    [[nodiscard]] ORCHARD_FN bool interleaved() const { return (flagged_lanes() & interleaved_flag) != 0; }
    /// Returns the number of whole segments.
    [[nodiscard]] ORCHARD_FN std::uint32_t segments() const { return whole_ != nullptr ? whole_->segments.get() : 0; }
    /// Returns the number of leaves of the tail.
    [[nodiscard]] ORCHARD_FN std::uint32_t leaves() const {
        return whole_ != nullptr ? whole_->leaves.get() & ~pooled_tail_flag
                                 : portion_record::leaves_of(part_->shape.get());
    }
    /// Returns whether the tail lies elsewhere than behind the segments.
    [[nodiscard]] ORCHARD_FN bool has_pooled_tail() const {
        return whole_ != nullptr && (whole_->leaves.get() & pooled_tail_flag) != 0;
    }
    /// Returns the first leaf of a tail that lies elsewhere, counted from the heap's first leaf.
    [[nodiscard]] ORCHARD_FN std::uint32_t tail() const { return whole_->tail.get(); }
    /// Returns where block `i` <= `lanes()`, or the sub-array of lane `i`, begins, in units of 256 B.
    [[nodiscard]] ORCHARD_FN std::uint32_t offset(std::uint32_t i) const {
        return whole_ != nullptr ? whole_->offset[i].get() : part_->offsets[i / 2].get() >> i % 2 * 16 & 0xffff;
    }
    [[nodiscard]] ORCHARD_FN const simt::device_word<std::uint32_t>& live() const {
        return whole_ != nullptr ? whole_->live : part_->live;
    }

private:
    [[nodiscard]] ORCHARD_FN std::uint32_t flagged_lanes() const {
        return whole_ != nullptr ? whole_->lanes.get() : part_->shape.get() & 0xff;
    }

    const chunk_record* whole_ = nullptr;
    const portion_record* part_ = nullptr;
};

/// Identifies a chunk: the leaf at which it begins, counted from the heap's first leaf. Bit 31 is set if it is one
/// portion, whose record lies in another array:
///
///     31       30         0
///     | portion | first leaf |      a portion from leaf 5 of segment 3 on: 0x80000065 (3 * 32 + 5 = 0x65)
enum class chunk_id : std::uint32_t {};

inline constexpr std::uint32_t portion_flag = 1u << 31;

ORCHARD_FN constexpr std::uint32_t to_underlying(chunk_id c) { return static_cast<std::uint32_t>(c); }
ORCHARD_FN constexpr chunk_id chunk_of_segments(std::uint32_t first) { return chunk_id{first * leaves_per_segment}; }
ORCHARD_FN constexpr chunk_id chunk_of_leaves(std::uint32_t segment, std::uint32_t leaf) {
    return chunk_id{(segment * leaves_per_segment + leaf) | portion_flag};
}
ORCHARD_FN constexpr bool is_portion(chunk_id c) { return (to_underlying(c) & portion_flag) != 0; }
/// Returns the leaf at which the chunk begins, counted from the heap's first leaf.
ORCHARD_FN constexpr std::uint32_t first_leaf(chunk_id c) { return to_underlying(c) & ~portion_flag; }
/// Returns the segment in which the chunk begins.
ORCHARD_FN constexpr std::uint32_t first_segment(chunk_id c) { return first_leaf(c) / leaves_per_segment; }

}  // namespace orchard::device
