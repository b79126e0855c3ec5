// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Allocation of a warp chunk. The blocks of a group's lanes form one warp request, which one warp chunk serves: whole
/// segments and a tail of 64 KiB leaves, or a tail alone. A tail shares its VA block with other tails.
///
///     allocate_chunk                    for the group; after a failure for each half, down to single lanes
///       place_blocks                    where each block lies, and how many segments and leaves that takes
///         lay_by_sums or lay_aligned, choose_shape
///       get_memory                      `acquire` (device/reclaim/acquire.cuh); again after a reclaim
///       describe_chunk                  the record, the owners of leaves or segments, `live`, each lane's address
///         write_record or write_portion_record, write_owners, publish_live
///
/// Source: Zhang et al., TPDS 2025, sections V.B and VI.A (the warp scheduler).

#include "device/reclaim/acquire.cuh"
#include "device/state/chunk_record.cuh"
#include "uvm/geometry/block_request.hpp"

namespace orchard::device {

/// The state of one lane in its group's request for a chunk, kept in local memory (host_rpc/client.cuh says why).
struct chunk_request {
    const heap_view& h;
    lane_mask mask;                ///< the group; after a split, the part of it that this lane belongs to
    std::uint64_t bytes;           ///< size of this lane's block, above 0
    std::uint32_t alignment;       ///< alignment of this lane's block, a power of two up to 2 MiB
    std::uint32_t asked = 0;       ///< in an instrumented heap: the word of the program's `block_request`
    std::uint64_t offset = 0;      ///< where this lane's block begins in the chunk, in units of 256 B
    std::uint64_t total = 0;       ///< length of the chunk, in units of 256 B
    std::uint32_t k = 0;           ///< whole segments of the chunk
    std::uint32_t leaves = 0;      ///< leaves of its tail
    mailbox::grant got{};          ///< the memory of the chunk
    std::uint64_t reclaim = 0;     ///< the reclaim after which a failure is final; 0: the request has not failed yet
    std::uint64_t since = 0;       ///< time at which the first reclaim was needed
    std::uint32_t got_before = 0;  ///< `segments_got` before the newest reclaim was needed
    std::uint32_t reclaims = 0;    ///< number of reclaims that the request has needed
    failure_reason why = failure_reason::none;  ///< why there is no block
    advice_code advice = 0;             ///< advice for the chunk, if it has whole segments; the same in all lanes
    void* block = nullptr;              ///< this lane's block
    std::uint64_t host_frees_seen = 0;  ///< number of blocks of the host that had been freed when the request failed
};

/// The most bytes of one chunk that a record can describe: offsets of 32 bits in units of 256 B, just under 1 TiB.
inline constexpr std::uint64_t max_chunk_bytes = ((std::uint64_t{1} << 32) - 1) << chunk_unit_shift;

/// Returns the bytes of a block, or of this lane's block, in units of 256 B, rounded up.
ORCHARD_INLINE std::uint64_t units_of(std::uint64_t bytes) {
    return (bytes + chunk_block_alignment - 1) >> chunk_unit_shift;
}
ORCHARD_INLINE std::uint64_t units_of(const chunk_request& r) { return units_of(r.bytes); }

/// Places the lanes' blocks one after the other, in the order of lanes: sets `r.offset` and `r.total`. All lanes of the
/// group call it. Cost: up to five times three shuffles, and two.
///
/// A prefix sum by doubling, for any mask: `sum` is the sum of this lane and of those below it down to, and without,
/// the lane `from`. Each step adds that lane's sum, and so twice as many lanes. Lanes 2, 5, 7 and 8 with sizes 1, 2, 3
/// and 4:
///
///     lane      2    5       7          8
///     step 0    1    2 (2)   3 (5)      4 (7)       sum (from)
///     step 1    1    3       5 (2)      7 (5)
///     step 2    1    3       6         10
inline ORCHARD_NOINLINE void lay_by_sums(chunk_request& r) {
    const int own = simt::lane_id();
    const int count = simt::popcount(r.mask);
    const lane_mask below = simt::lanes_below(r.mask);
    int from = below != 0 ? simt::highest_bit(below) : own;  // own: no lane is left below
    std::uint64_t sum = units_of(r);
    ORCHARD_NO_UNROLL
    for (int lanes = 1; lanes < count; lanes *= 2) {
        const std::uint64_t more = simt::shuffle(r.mask, sum, from);
        const int next = simt::shuffle(r.mask, from, from);
        sum += from != own ? more : 0;
        from = next != from ? next : own;
    }
    r.offset = sum - units_of(r);
    r.total = simt::shuffle(r.mask, sum, simt::highest_bit(r.mask));
}

/// The same if a block needs a greater alignment than 256 B: each begins at a multiple of its own. Cost: two shuffles
/// for each lane, as the gap before a block depends on the end of the one before.
///
/// Blocks of 1 MiB, 100 B and 300 KiB are 4,096, 1 and 1,200 units: the offsets are 0, 4,096 and 4,097, the total 5,297
/// units. If the last block is to be aligned to 64 KiB (256 units), it begins at 4,352.
inline ORCHARD_NOINLINE void lay_aligned(chunk_request& r) {
    r.total = 0;
    ORCHARD_NO_UNROLL
    for (lane_mask left = r.mask; left != 0; left &= left - 1) {
        const int lane = simt::lowest_bit(left);
        const std::uint64_t asked = simt::shuffle(r.mask, r.alignment, lane) >> chunk_unit_shift;
        const std::uint64_t align = asked > 1 && !simt::mutation::is(fault::block_alignment) ? asked : 1;
        r.total = (r.total + align - 1) & ~(align - 1);
        r.offset = simt::lane_id() == lane ? r.total : r.offset;
        r.total += simt::shuffle(r.mask, units_of(r), lane);
    }
}

/// Chooses the number of segments and the tail for a chunk of `r.total` units: sets `r.k` and `r.leaves`. A chunk of
/// 5,297 units, 1,356,032 B, is more than 20 leaves: under the policy `packed` a tail of 21 leaves, under `padded` a
/// whole segment, since a portion has at most 16 leaves there.
ORCHARD_INLINE void choose_shape(chunk_request& r, bool aligned_beyond_leaves) {
    constexpr int shift = segment_shift - chunk_unit_shift;
    r.k = static_cast<std::uint32_t>(r.total >> shift);
    const std::uint64_t rest = (r.total & ((std::uint64_t{1} << shift) - 1)) << chunk_unit_shift;
    r.leaves = to_underlying(portion_leaves(r.h.portions_by, leaves_for(rest)));
    // A segment replaces the tail in three cases: the tail is too long for a portion; a block needs an alignment above
    // a leaf, since a portion may begin at any leaf; or the chunk is to be advised, which a VA block with other chunks'
    // tails cannot be.
    if (rest != 0 && (r.leaves == 0 || (r.k == 0 ? aligned_beyond_leaves : r.advice != 0))) {
        ++r.k;
        r.leaves = 0;
    }
}

/// Chooses where each lane's block lies, and the size of the chunk. Returns false if the chunk would be too large for
/// the heap or for a record; a half of the group may still succeed. All lanes of a converged group call it.
inline ORCHARD_NOINLINE bool place_blocks(chunk_request& r) {
    // Checked before the sizes are added, so that the sum cannot overflow.
    if (simt::ballot(r.mask, segments_for(r.bytes) > r.h.max_slabs || r.bytes > max_chunk_bytes) != 0) {
        return false;
    }
    const lane_mask beyond = simt::ballot(r.mask, r.alignment > big_page_bytes);
    if (simt::ballot(r.mask, r.alignment > chunk_block_alignment) == 0) {
        lay_by_sums(r);
    } else {
        lay_aligned(r);
    }
    choose_shape(r, beyond != 0 && !simt::mutation::is(fault::leaf_alignment));
    return r.total <= max_chunk_bytes >> chunk_unit_shift && r.k + (r.leaves != 0 ? 1 : 0) <= r.h.max_slabs;
}

/// Returns the leaf at which the chunk begins, counted from the heap's first leaf.
ORCHARD_INLINE std::uint32_t begin_of(const chunk_request& r) {
    return to_underlying(r.got.first) * leaves_per_segment + (r.k == 0 ? to_underlying(r.got.leaf) : 0);
}
ORCHARD_INLINE chunk_id id_of(const chunk_request& r) {
    return chunk_id{r.k == 0 ? begin_of(r) | portion_flag : begin_of(r)};
}

/// The part of a chunk's record that one lane writes. Ranks follow the order of lanes for blocks, the order of
/// positions for interleaved arrays.
struct record_part {
    std::uint32_t rank;   ///< rank of the lane in the record
    std::uint64_t after;  ///< `offset` of the lane of the next rank, or `total` for the last rank
    std::uint32_t flag;   ///< 0, or `interleaved_flag`
};

/// Returns `live` with a bit for each lane of a chunk.
ORCHARD_INLINE std::uint32_t live_lanes(std::uint32_t lanes) { return lanes == 32 ? ~0u : (1u << lanes) - 1; }

/// Writes the record of a chunk of segments, by plain stores, which `publish_live` releases. All lanes of the group
/// call it.
ORCHARD_INLINE void write_record(const chunk_request& r, const record_part& part) {
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

/// Writes the record of a chunk that is one portion. All lanes of the group call it. A lane of even rank writes its own
/// offset and the next lane's; the last lane of odd rank writes the total. A word thus has one writer. Of 3 lanes, rank
/// 0 writes offsets 0 and 1, rank 2 writes offset 2 and the total; of 2 lanes, rank 1 writes the total.
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

/// Marks the chunk's blocks as in use, after the record is complete. All lanes of the group call it, after a barrier
/// behind the writes of the record. From here on, a free of a block of the chunk succeeds.
ORCHARD_INLINE void publish_live(const chunk_request& r) {
    if (is_leader(r.mask)) {
        auto& live = r.k != 0 ? r.h.records[to_underlying(r.got.first)].live : r.h.portion_records[begin_of(r)].live;
        // Releases the record, whose writes by all lanes the group's barrier has ordered before this store. Pairs with
        // the acquire in `look_at_live`.
        live.store<order::release>(live_lanes(static_cast<std::uint32_t>(simt::popcount(r.mask))));
    }
}

/// Changes a segment's kind to `portions`, unless it has that kind; owners of other portions of the segment may be
/// doing the same. One lane calls it alone. The release pairs with `find_chunk`. By the compare-and-swap, the
/// generation rises once, whichever owner comes first.
ORCHARD_INLINE void mark_portions(device_word<std::uint64_t>& d) {
    std::uint64_t word = d.load<order::relaxed>();
    while (descriptor::kind(word) != segment_kind::portions &&
           !d.compare_exchange<order::release>(word, descriptor::next(word, segment_kind::portions, 0, 0))) {
    }
}

/// Writes the chunk's identity to the leaf (in a tail) or the descriptor (otherwise) in which this lane's block begins.
/// If several blocks begin there, one lane writes. All lanes of the group call it.
///
/// Only places where a block begins are written, since a free gets the address of a block's first byte: a chunk of 100
/// segments with two blocks writes two words. The words of all other leaves and segments keep their old contents;
/// `find_chunk` and `has_record` allow for that.
inline ORCHARD_NOINLINE void write_owners(chunk_request& r) {
    const std::uint32_t leaf = begin_of(r) + static_cast<std::uint32_t>(r.offset >> (16 - chunk_unit_shift));
    const std::uint32_t segment = leaf / leaves_per_segment;
    const bool in_tail = segment == to_underlying(r.got.first) + r.k;
    const bool first_here = is_leader(simt::match(r.mask, segment));
    if (is_leader(simt::match(r.mask, leaf)) && in_tail) {
        // Relaxed: the barrier in `describe` orders this store before each lane's use of its block, and so before every
        // valid free.
        r.h.leaf_owners[leaf].store<order::relaxed>(to_underlying(id_of(r)));
    }
    if (first_here) {
        auto& d = r.h.descriptor(segment);
        if (in_tail) {
            mark_portions(d);
        } else {
            // Releases the record (ordered by the group's barrier); pairs with `find_chunk` and `has_record`.
            d.store<order::release>(
                descriptor::next(d.load<order::relaxed>(), segment_kind::chunk, 0, to_underlying(r.got.first)));
        }
    }
}

/// Returns the sum of the lanes' bytes. All lanes of a converged group call it.
ORCHARD_INLINE std::uint64_t bytes_asked(const chunk_request& r) {
    // Two sums of 32-bit halves: a block is smaller than 2^40 B, so that neither overflows.
    const std::uint64_t high = simt::reduce_add(r.mask, static_cast<std::uint32_t>(r.bytes >> 16));
    return (high << 16) + simt::reduce_add(r.mask, static_cast<std::uint32_t>(r.bytes & 0xffff));
}

/// Notes that a failure is final only after a reclaim that has not begun yet. All lanes of the group call it.
inline ORCHARD_NOINLINE void need_reclaim(chunk_request& r) {
    r.since = r.reclaims == 0 ? simt::clock_ns() : r.since;
    r.got_before = segments_got(r.h, r.mask);
    r.reclaim = next_reclaim(r.h, r.mask);
    ++r.reclaims;
}

/// Returns whether the group waits for another reclaim after a failure, and notes that. All lanes of the group call it.
inline ORCHARD_NOINLINE bool needs_another(chunk_request& r) {
    if (!is_shortage(r.why)) {
        return false;
    }
    if (r.reclaim != 0) {
        const bool late = simt::clock_ns() - r.since > r.h.mailbox.patience_ns();
        const std::uint32_t k = r.k + (r.leaves != 0 ? 1 : 0);
        if (from_leader(r.mask, late ? 1u : 0u) != 0 || !is_worth_another(r.h, r.mask, r.got_before, r.reclaims, k)) {
            return false;
        }
    }
    need_reclaim(r);
    return true;
}

/// Gets the memory of the chunk: sets `r.got`, and `r.why` to none or the reason for the failure. It fails for shortage
/// only after a reclaim that began after the first attempt found nothing, and after others, up to eight, while other
/// groups got segments (`is_worth_another`). After a split, the halves rely on that same reclaim, unless one of them
/// gets memory, so that a group of 32 lanes needs a few reclaims and not 63. The first attempt is rounded up
/// (`round_request`), the others are not: while a commit is blocked, the host may have memory for exactly the blocks.
/// All lanes of a converged group call it.
///
/// A loop with one call of `acquire` would take eight registers more.
inline ORCHARD_FN void get_memory(chunk_request& r) {
    if (r.reclaim == 0) {
        r.why = acquire(r.h, r.mask, {r.k, r.leaves, bytes_asked(r), 0, false, r.advice}, &r.got);
        if (is_shortage(r.why)) {
            need_reclaim(r);
        } else if (r.why != failure_reason::commit_blocked) {
            return;
        }
    }
    ORCHARD_NO_UNROLL
    do {
        if (r.reclaim != 0) {
            await_reclaim(r.h, r.mask, r.reclaim);
        }
        r.why = acquire(r.h, r.mask, {r.k, r.leaves, bytes_asked(r), r.reclaim, true, r.advice}, &r.got);
    } while (needs_another(r));
}

/// Takes over the length of the memory, which may be greater than what was asked for (segments/chunk_store.cuh).
/// Each lane calls it for itself.
ORCHARD_INLINE void set_length(chunk_request& r) {
    r.k = r.got.count;
    r.leaves = to_underlying(r.got.leaves);
}

/// Writes all metadata of the chunk `r.got`, and computes the address of this lane's block. All lanes of a converged
/// group call it. The second barrier lets the releases of the descriptors and of `live` cover the whole record. After
/// the third, each lane may pass its block on: a free by any thread finds the owner that another lane of the group
/// wrote.
inline ORCHARD_NOINLINE void describe(chunk_request& r, const record_part& part) {
    set_length(r);
    // One lane acquired the memory, and all lanes write the metadata: the barrier orders these writes after the
    // memory's last use.
    if (!simt::mutation::is(fault::record_sync)) {
        simt::sync(r.mask);
    }
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

/// The same for blocks, which lie in the order of lanes: the next lane of the group owns the next block.
inline ORCHARD_NOINLINE void describe_chunk(chunk_request& r) {
    const lane_mask above = r.mask & ~simt::lanes_below(r.mask) & ~(lane_mask{1} << simt::lane_id());
    const int next = above != 0 ? simt::lowest_bit(above) : simt::lane_id();
    const std::uint64_t after = simt::shuffle(r.mask, r.offset, next);
    describe(r, {static_cast<std::uint32_t>(simt::rank_in(r.mask)), above != 0 ? after : r.total, 0});
}

/// Splits the group in halves after a failure, if fewer lanes could succeed: `r.mask` becomes the half with this lane.
/// Returns whether it did. A group of 5 lanes becomes groups of 2 and 3, which go on separately.
inline ORCHARD_NOINLINE bool split_group(chunk_request& r) {
    const int half = simt::popcount(r.mask) / 2;
    if (half == 0 || (!is_shortage(r.why) && r.why != failure_reason::too_large)) {
        return false;
    }
    const auto lower = static_cast<lane_mask>(lowest_ones(r.mask, static_cast<std::uint32_t>(half)));
    r.mask = simt::rank_in(r.mask) < half ? lower : r.mask & ~lower;
    return true;
}

/// Gets one chunk for the group. Sets `r.block` to this lane's block, or leaves it null and sets `r.why`. If there is
/// no memory for the whole group, its halves try separately, and so on down to single lanes, so that as many lanes as
/// possible get a block. All lanes of a converged group call it. Cost: as `acquire`, and a few stores of metadata by
/// each lane; if single lanes fail as well, up to six times that for each lane (32, 16, 8, 4, 2 and 1 lanes).
///
/// Errors, in `r.why`: those of `acquire`; too_large if a single block exceeds the heap.
inline ORCHARD_FN void allocate_chunk(chunk_request& r) {
    do {
        r.why = failure_reason::too_large;
        if (place_blocks(r)) {
            get_memory(r);
        }
        if (r.why == failure_reason::none) {
            return describe_chunk(r);
        }
    } while (split_group(r));
}

}  // namespace orchard::device
