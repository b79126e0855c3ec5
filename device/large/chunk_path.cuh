// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Large requests: the lanes of a group become one warp request, answered by one warp chunk: whole segments and a tail
/// of 64 KiB leaves, which shares its VA block with other tails, or such a tail alone. Source: Zhang et al., TPDS 2025,
/// sections V.B and VI.A (the warp scheduler).

#include "device/large/chunk_record.cuh"
#include "device/reclaim/acquire.cuh"

namespace orchard::device {

/// One lane's part in its group's request for a chunk, in its memory; `mailbox_client.cuh` says why.
struct chunk_request {
    const heap_view& h;
    lane_mask mask;            ///< the group; after a split, the part of it that this lane is in
    std::uint64_t bytes;       ///< of this lane, above 0
    std::uint64_t alignment;   ///< of this lane's block, a power of two up to 2 MiB
    std::uint64_t offset = 0;  ///< of this lane's block in the chunk, in units of 256 B
    std::uint64_t total = 0;   ///< length of the chunk, in the same
    std::uint32_t k = 0;       ///< its whole segments
    std::uint32_t leaves = 0;  ///< and its tail
    mailbox::grant got{};
    std::uint64_t reclaim = 0;  ///< behind which a refusal is the last word; 0: it was not refused yet
    failure_reason why = failure_reason::none;
    void* block = nullptr;              ///< this lane's
    std::uint64_t host_frees_seen = 0;  ///< how many blocks of the host had been freed when it was refused
};

/// Most bytes of one chunk: what its record can say.
inline constexpr std::uint64_t max_chunk_bytes = ((std::uint64_t{1} << 32) - 1) << chunk_unit_shift;

/// Lays blocks side by side in the order of lanes, each on a multiple of its alignment.
inline ORCHARD_NOINLINE void lay_side_by_side(chunk_request& r) {
    r.total = 0;
    ORCHARD_NO_UNROLL
    for (lane_mask left = r.mask; left != 0; left &= left - 1) {
        const int lane = simt::lowest_bit(left);
        const std::uint64_t asked = simt::shuffle(r.mask, r.alignment, lane) >> chunk_unit_shift;
        const std::uint64_t align = asked > 1 ? asked : 1;
        r.total = (r.total + align - 1) & ~(align - 1);
        r.offset = simt::lane_id() == lane ? r.total : r.offset;
        r.total += simt::shuffle(r.mask, (r.bytes + chunk_block_alignment - 1) >> chunk_unit_shift, lane);
    }
}

/// Segments and tail of a chunk of `r.total` units.
inline ORCHARD_NOINLINE void choose_shape(chunk_request& r, bool aligned_beyond_leaves) {
    constexpr int shift = segment_shift - chunk_unit_shift;
    r.k = static_cast<std::uint32_t>(r.total >> shift);
    const std::uint64_t rest = (r.total & ((std::uint64_t{1} << shift) - 1)) << chunk_unit_shift;
    r.leaves = to_underlying(portion_leaves(r.h.portions_by, leaves_for(rest)));
    // A portion begins at any leaf; and a tail too long for a portion is a segment.
    if (rest != 0 && (r.leaves == 0 || (r.k == 0 && aligned_beyond_leaves))) {
        ++r.k;
        r.leaves = 0;
    }
}

/// Says where each lane's block is to be, and how large the chunk. False where they are too large. All lanes of a
/// converged group.
inline ORCHARD_NOINLINE bool place_blocks(chunk_request& r) {
    // Before the sum, so that it cannot overflow.
    if (simt::ballot(r.mask, segments_for(r.bytes) > r.h.max_slabs || r.bytes > max_chunk_bytes) != 0) {
        return false;
    }
    const lane_mask beyond = simt::ballot(r.mask, r.alignment > big_page_bytes);
    lay_side_by_side(r);
    choose_shape(r, beyond != 0);
    return r.total <= max_chunk_bytes >> chunk_unit_shift && r.k + (r.leaves != 0 ? 1 : 0) <= r.h.max_slabs;
}

/// The leaf at which the chunk begins, counted from the heap's first.
ORCHARD_INLINE std::uint32_t begin_of(const chunk_request& r) {
    return to_underlying(r.got.first) * leaves_per_segment + (r.k == 0 ? to_underlying(r.got.leaf) : 0);
}
ORCHARD_INLINE chunk_id id_of(const chunk_request& r) {
    return chunk_id{r.k == 0 ? begin_of(r) | portion_flag : begin_of(r)};
}

/// What a lane writes into its chunk's record: of blocks by their lanes' order, of interleaved arrays by theirs.
struct record_part {
    std::uint32_t rank;   ///< of the lane
    std::uint64_t after;  ///< `offset` of the lane of the next rank; `total` where there is none
    std::uint32_t flag;   ///< 0, or `interleaved_flag`
};

/// All lanes of a chunk as its record has them.
ORCHARD_INLINE std::uint32_t live_lanes(std::uint32_t lanes) { return lanes == 32 ? ~0u : (1u << lanes) - 1; }

/// Writes the record of a chunk of segments.
inline ORCHARD_NOINLINE void write_record(const chunk_request& r, const record_part& part) {
    auto& record = r.h.records[to_underlying(r.got.first)];
    record.offset[part.rank].set(static_cast<std::uint32_t>(r.offset));
    if (is_leader(r.mask)) {
        const auto lanes = static_cast<std::uint32_t>(simt::popcount(r.mask));
        record.lanes.set(lanes | part.flag);
        record.segments.set(r.k);
        record.leaves.set(r.leaves);
        record.offset[lanes].set(static_cast<std::uint32_t>(r.total));
    }
}

/// Writes the record of a chunk that is a portion.
inline ORCHARD_NOINLINE void write_portion_record(const chunk_request& r, const record_part& part) {
    auto& record = r.h.portion_records[begin_of(r)];
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(r.mask));
    if (part.rank % 2 == 0) {
        record.offsets[part.rank / 2].set(static_cast<std::uint32_t>(part.after << 16 | r.offset));
    } else if (part.rank + 1 == lanes) {
        record.offsets[lanes / 2].set(static_cast<std::uint32_t>(r.total));
    }
    if (is_leader(r.mask)) {
        record.shape.set(portion_record::shape_of(r.h.stamp, lanes | part.flag, r.leaves));
    }
}

/// Says that the chunk's blocks are in use, now that all else is written. All lanes.
inline ORCHARD_NOINLINE void publish_live(const chunk_request& r) {
    if (is_leader(r.mask)) {
        auto& live = r.k != 0 ? r.h.records[to_underlying(r.got.first)].live : r.h.portion_records[begin_of(r)].live;
        // Releases the record, which the group's sync has brought to the leader: pairs with the look of the lane that
        // frees.
        live.store<order::release>(live_lanes(static_cast<std::uint32_t>(simt::popcount(r.mask))));
    }
}

/// Makes a segment one of portions, if it is none yet: others of its portions may be doing so. Any lane, alone.
ORCHARD_INLINE void mark_portions(device_word<std::uint64_t>& d) {
    std::uint64_t word = d.load<order::relaxed>();
    while (descriptor::kind(word) != segment_kind::portions &&
           !d.compare_exchange<order::release>(word, descriptor::next(word, segment_kind::portions, 0, 0))) {
    }
}

/// Says of the leaf, or of the segment, in which this lane's block begins, whose it is. All lanes.
inline ORCHARD_NOINLINE void write_owners(chunk_request& r) {
    const std::uint32_t leaf = begin_of(r) + static_cast<std::uint32_t>(r.offset >> (16 - chunk_unit_shift));
    const std::uint32_t segment = leaf / leaves_per_segment;
    const bool in_tail = segment == to_underlying(r.got.first) + r.k;
    const bool first_here = is_leader(simt::match(r.mask, segment));
    if (is_leader(simt::match(r.mask, leaf)) && in_tail) {
        r.h.leaf_owners[leaf].store<order::relaxed>(to_underlying(id_of(r)));
    }
    if (first_here) {
        auto& d = r.h.descriptors[segment];
        if (in_tail) {
            mark_portions(d);
        } else {
            // The group's sync covers the record.
            d.store<order::release>(
                descriptor::next(d.load<order::relaxed>(), segment_kind::chunk, 0, to_underlying(r.got.first)));
        }
    }
}

/// Bytes that the lanes ask for. All lanes of a converged group.
inline ORCHARD_NOINLINE std::uint64_t bytes_asked(const chunk_request& r) {
    // Sums of 32 bits: a block is under 2^40 B.
    const std::uint64_t high = simt::reduce_add(r.mask, static_cast<std::uint32_t>(r.bytes >> 16));
    return (high << 16) + simt::reduce_add(r.mask, static_cast<std::uint32_t>(r.bytes & 0xffff));
}

/// Gets the memory for the chunk. Refuses only behind a reclaim that began when nothing was found at first; halves of a
/// group that was refused need no other one. All lanes of a converged group.
inline ORCHARD_FN failure_reason get_memory(chunk_request& r) {
    if (r.reclaim == 0) {
        const failure_reason why = acquire(r.h, r.mask, {r.k, r.leaves, bytes_asked(r)}, &r.got);
        if (!is_shortage(why)) {
            return why;
        }
        r.reclaim = next_reclaim(r.h, r.mask);
    }
    await_reclaim(r.h, r.mask, r.reclaim);
    return acquire(r.h, r.mask, {r.k, r.leaves, bytes_asked(r), r.reclaim}, &r.got);
}

/// Writes what describes the chunk `r.got`, and says where this lane's block is. All lanes of a converged group.
inline ORCHARD_NOINLINE void describe(chunk_request& r, const record_part& part) {
    // One lane acquired the memory, and all write what describes it: now that is behind its last use for all.
    simt::sync(r.mask);
    if (r.k != 0) {
        write_record(r, part);
    } else {
        write_portion_record(r, part);
    }
    simt::sync(r.mask);
    write_owners(r);
    publish_live(r);
    simt::sync(r.mask);
    r.block = r.h.base + std::uint64_t{begin_of(r)} * big_page_bytes + (r.offset << chunk_unit_shift);
}

/// The same for blocks, which lie in the order of lanes.
inline ORCHARD_NOINLINE void describe_chunk(chunk_request& r) {
    const lane_mask above = r.mask & ~simt::lanes_below(r.mask) & ~(lane_mask{1} << simt::lane_id());
    const int next = above != 0 ? simt::lowest_bit(above) : simt::lane_id();
    const std::uint64_t after = simt::shuffle(r.mask, r.offset, next);
    describe(r, {static_cast<std::uint32_t>(simt::rank_in(r.mask)), above != 0 ? after : r.total, 0});
}

/// Where fewer lanes could get what the lanes together could not: the lower or the upper half of the group is the
/// group now, whichever this lane is in.
inline ORCHARD_NOINLINE bool split_group(chunk_request& r) {
    const int half = simt::popcount(r.mask) / 2;
    if (half == 0 || !may_be_elsewhere(r.why)) {
        return false;
    }
    const auto lower = static_cast<lane_mask>(lowest_ones(r.mask, static_cast<std::uint32_t>(half)));
    r.mask = simt::rank_in(r.mask) < half ? lower : r.mask & ~lower;
    return true;
}

/// One chunk for the group; this lane's block of it in `r.block`, or null with the reason in `r.why`. Any mask. Where
/// there is no memory for all of them together, the halves of the group ask apart, and so on down to single lanes, so
/// that those are served for whom there is some.
/// Cost: as `acquire`, and a few stores of metadata by each lane.
inline ORCHARD_FN void allocate_chunk(chunk_request& r) {
    do {
        r.why = place_blocks(r) ? get_memory(r) : failure_reason::too_large;
        if (r.why == failure_reason::none) {
            return describe_chunk(r);
        }
    } while (split_group(r));
}

}  // namespace orchard::device
