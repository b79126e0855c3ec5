// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Finds the block of a chunk at an address, and frees it. Any address is a valid argument: metadata that an invalid
/// address leads to is checked before it is used.
///
///     free_from_chunk
///       is_in_heap
///       find_block
///         find_chunk            descriptor of the segment, or owner of the leaf  --> which chunk
///         look_at_live          is any of its blocks in use?                     --> its record is complete
///         find_among            which block begins at the address                --> which bit of `live`
///       free_found
///         find_peers            the lanes that have found blocks of the same chunk free together
///         clear_live            their bits; the last ones end the chunk
///         end_chunk             descriptors of its segments
///         return_chunk          the memory goes into the chunk store or the segment cache
///
/// A double free ends at `look_at_live` (the chunk has ended) or at the block's own bit (it has not), unless the memory
/// has another owner already. Of two frees of one block that race with each other, the atomic in `clear_live` lets one
/// succeed, on the same condition.

#include "device/large/chunk_path.cuh"
#include "device/segments/chunk_store.cuh"

namespace orchard::device {

/// Returns the record of a chunk.
inline ORCHARD_FN chunk_blocks blocks_of(const heap_view& h, chunk_id c) {
    return is_portion(c) ? chunk_blocks(h.portion_records[first_leaf(c)]) : chunk_blocks(h.records[first_segment(c)]);
}

/// A search for the block of a chunk at an address, in phases that need few registers each (host_rpc/client.cuh says
/// why). One lane calls each phase alone.
struct block_search {
    static constexpr chunk_id nothing{0xffffffffu};

    const heap_view& h;
    std::uint64_t offset;      ///< the address, counted from the heap's first byte
    chunk_id chunk = nothing;  ///< the result; `nothing` if no block in use begins at the address
    std::uint32_t block = 0;   ///< number of the block in the chunk
    std::uint32_t units = 0;   ///< where it begins in the chunk, in units of 256 B
    std::uint32_t live = 0;    ///< lanes of the chunk that had not freed when the search began
    lane_mask peers = 0;       ///< the lanes that free blocks of the same chunk together
    bool right = false;        ///< this lane's block was in use, and is freed
    bool last = false;         ///< no block of the chunk is in use any more, and `peers` own its memory
    chunk_pieces memory;       ///< of a chunk that has ended

    ORCHARD_FN block_search(const heap_view& heap, const void* p)
        : h{heap}, offset{static_cast<std::uint64_t>(static_cast<const char*>(p) - heap.base)}, memory{heap} {}
    /// Returns the address searched. It may lie outside the heap, where pointer arithmetic is undefined, hence
    /// integers.
    [[nodiscard]] ORCHARD_INLINE const void* address() const {
        return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(h.base) + offset);
    }
};

inline ORCHARD_NOINLINE bool is_in_heap(const block_search& s) { return s.h.owns_offset(s.offset); }

/// Returns whether the chunk that a leaf names can have a record: a portion must lie in the segment of its leaf; for
/// any other chunk, its first segment must say so. Without this check, an invalid free could read memory that is not
/// mapped: records are mapped with the segments that they describe, descriptors always.
inline ORCHARD_NOINLINE bool has_record(const block_search& s) {
    const std::uint32_t first = first_segment(s.chunk);
    if (is_portion(s.chunk)) {
        return first == s.offset >> segment_shift;
    }
    // Acquire: pairs with the release in `write_owners`.
    const std::uint64_t d = s.h.descriptor(first).load<order::acquire>();
    return descriptor::kind(d) == segment_kind::chunk && descriptor::extent(d) == first;
}

/// Finds the chunk that contains the address, if any: sets `s.chunk` and `s.units`. The descriptor names the first
/// segment of a chunk; in a segment of portions, the owner word of the leaf names the chunk.
inline ORCHARD_NOINLINE void find_chunk(block_search& s) {
    // Pairs with the release that set the descriptor (`write_owners`): the chunk's record was written before.
    const std::uint64_t d =
        s.h.descriptor(static_cast<std::uint32_t>(s.offset >> segment_shift)).load<order::acquire>();
    if (descriptor::kind(d) == segment_kind::chunk) {
        s.chunk = chunk_of_segments(descriptor::extent(d));
    } else if (descriptor::kind(d) == segment_kind::portions) {
        s.chunk = chunk_id{s.h.leaf_owners[s.offset / big_page_bytes].load<order::relaxed>()};
    } else {
        return;
    }
    // The owner's word may be arbitrary. Another thread may have rewritten it meanwhile, for a chunk that begins behind
    // the block. If no block ever began in this leaf, the word was never initialized. If the chunk begins behind the
    // address, `inside` wraps around and is too large.
    const std::uint64_t inside = s.offset - std::uint64_t{first_leaf(s.chunk)} * big_page_bytes;
    s.units = static_cast<std::uint32_t>(inside >> chunk_unit_shift);
    if (inside > max_chunk_bytes || inside % chunk_block_alignment != 0 || !has_record(s)) {
        s.chunk = block_search::nothing;
    }
}

/// Returns the word that says which lanes of a chunk have not freed.
ORCHARD_INLINE simt::device_word<std::uint32_t>& live_of(const block_search& s) {
    return is_portion(s.chunk) ? s.h.portion_records[first_leaf(s.chunk)].live
                               : s.h.records[first_segment(s.chunk)].live;
}

/// Reads `live` before the record: while no lane is live, another thread may rewrite the record for the next chunk that
/// begins there. A double free ends here, or at the block's own bit.
inline ORCHARD_NOINLINE void look_at_live(block_search& s) {
    // Pairs with the release in `publish_live`: the record of a live chunk is complete.
    s.live = live_of(s).load<order::acquire>();
    if (simt::mutation::is(fault::live_look)) {
        s.live = ~0u;
    }
    if (s.live == 0) {
        s.chunk = block_search::nothing;
    }
}

/// Finds the block that begins at `s.units` by binary search over `offset(i)` of the `lanes` blocks, which ascend: sets
/// `s.block`, or `s.chunk` to `nothing` if there is none in use. Usually the first guess is right.
template <class Offset>
ORCHARD_INLINE void find_among(block_search& s, std::uint32_t lanes, Offset offset) {
    // First guess: each lane usually frees the block that it got itself, in a full warp or in a part of one. If a part
    // of 8 lanes shares a chunk, lane 19 has block 3 = 19 % 8. If there are more lanes than possible, another thread
    // has rewritten the record, or it describes arrays.
    const auto own = static_cast<std::uint32_t>(simt::lane_id());
    const std::uint32_t guess = own < lanes ? own : own & (lanes - 1);
    std::uint32_t low = guess < lanes && lanes <= simt::warp_size && offset(guess) == s.units ? guess : 0;
    std::uint32_t high = lanes > simt::warp_size ? 0 : lanes;
    // If the block exists, it is in [low, high), and offset(low) <= `s.units`.
    ORCHARD_NO_UNROLL
    while (low < high && offset(low) != s.units) {
        const std::uint32_t middle = (low + high) / 2;
        if (offset(middle) <= s.units) {
            low = middle == low ? high : middle;
        } else {
            high = middle;
        }
    }
    s.block = low;
    if (low >= high || (s.live >> low & 1) == 0) {
        s.chunk = block_search::nothing;
    }
}
inline ORCHARD_NOINLINE void find_in_segments(block_search& s) {
    const chunk_record& r = s.h.records[first_segment(s.chunk)];
    find_among(s, r.lanes.get(), [&](std::uint32_t i) { return r.offset[i].get(); });
}
/// The same in the record of a portion, which must bear this heap's stamp: records are not cleared before their first
/// use, and an invalid free may lead to one that was never written.
inline ORCHARD_NOINLINE void find_in_portion(block_search& s) {
    const portion_record& r = s.h.portion_records[first_leaf(s.chunk)];
    const std::uint32_t shape = r.shape.get();
    if (!portion_record::is_stamped(shape, s.h.stamp)) {
        s.chunk = block_search::nothing;
        return;
    }
    find_among(s, shape & 0xff, [&](std::uint32_t i) { return r.offsets[i / 2].get() >> i % 2 * 16 & 0xffff; });
}

/// Finds the block in use that begins at the address, which must be in the heap (`is_in_heap`): sets `s.chunk` and
/// `s.block`, or `s.chunk` to `nothing`. Cost: five to eleven loads.
ORCHARD_INLINE void find_block(block_search& s) {
    find_chunk(s);
    if (s.chunk != block_search::nothing) {
        look_at_live(s);
    }
    if (s.chunk != block_search::nothing) {
        if (is_portion(s.chunk)) {
            find_in_portion(s);
        } else {
            find_in_segments(s);
        }
    }
}

/// Returns the size in bytes of the block found, up to the next block: its request rounded up to 256 B, and the gap
/// before the next block if that has a greater alignment.
inline ORCHARD_NOINLINE std::uint64_t live_bytes(const block_search& s) {
    return std::uint64_t{blocks_of(s.h, s.chunk).offset(s.block + 1) - s.units} << chunk_unit_shift;
}

/// Returns the size in bytes of the block of a chunk that begins at `p`, which lies in the heap; 0 if there is none.
/// One lane calls it alone. Cost: as `find_block`, and a load.
ORCHARD_INLINE std::uint64_t bytes_in_chunk(const heap_view& h, const void* p) {
    block_search s(h, p);
    find_block(s);
    return s.chunk == block_search::nothing ? 0 : live_bytes(s);
}

/// Sets the lanes that free together, `s.peers`: those that come here at the same time and have found blocks of the
/// same chunk. Returns whether this lane has found one. Any lanes call it, in any divergence.
inline ORCHARD_NOINLINE bool find_peers(block_search& s) {
    const lane_mask here = simt::converge();
    const bool found = s.chunk != block_search::nothing;
    s.peers = simt::match(here, found ? reinterpret_cast<std::uintptr_t>(&live_of(s)) : 0);
    return found;
}

/// Clears the bits of the blocks that the lanes `s.peers` have found, and counts them as freed: sets `s.right` and
/// `s.last`. All of these lanes call it. Cost: one atomic, whose old value decides between groups that free the same
/// block, and names the one group that ends the chunk; one more whose result is not used. Of several lanes of the group
/// that free one block, the lowest is right.
inline ORCHARD_NOINLINE void clear_live(block_search& s) {
    const std::uint32_t bit = 1u << s.block;
    const std::uint32_t bits = simt::reduce_or(s.peers, bit);
    const bool first = is_leader(simt::match(s.peers, bit)) || simt::mutation::is(fault::racing_free);
    // Orders the accesses of all these lanes to their blocks before the leader's release.
    simt::sync(s.peers);
    std::uint32_t before = 0;
    if (is_leader(s.peers)) {
        simt::mutation::weaken_next(fault::live_order);
        before = live_of(s).fetch_and<order::acq_rel>(~bits);
    }
    before = from_leader(s.peers, before);
    s.right = first && ((before & bit) != 0 || simt::mutation::is(fault::racing_free));
    s.last = (before & bits) != 0 && (before & ~bits) == 0;
    const auto freed = static_cast<std::uint64_t>(simt::popcount(simt::ballot(s.peers, s.right)));
    if (is_leader(s.peers)) {
        s.h.add(counter::frees, freed);
    }
}

/// Clears the descriptor of segment `first + i` of a chunk that has ended. No read-modify-write is needed, since these
/// lanes are the segment's only owners. Relaxed: the barrier in `end_chunk` orders it before the release by which the
/// leader hands the segment on.
ORCHARD_INLINE void clear_descriptor(const block_search& s, std::uint32_t i) {
    auto& d = s.h.descriptor(first_segment(s.chunk) + i);
    d.store<order::relaxed>(descriptor::next(d.load<order::relaxed>(), segment_kind::none, 0, 0));
}

/// Returns the number of the chunk's segment in which block `i` begins, from 0.
ORCHARD_INLINE std::uint32_t segment_of_block(const block_search& s, std::uint32_t i) {
    return s.h.records[first_segment(s.chunk)].offset[i].get() >> (segment_shift - chunk_unit_shift);
}

/// Ends a chunk: clears the descriptors of its segments. All lanes of `s.peers` call it, and share the work. The first
/// segment has a descriptor, and each in which a block begins (`write_owners`, `mark_first_segment`); the first block
/// that begins in a segment stands for it. The tail lies beyond the chunk's segments: a segment of portions keeps its
/// kind, since other portions of it may be in use. Cost: for each block of a lane two loads of the record, a load and a
/// store.
inline ORCHARD_NOINLINE void end_chunk(const block_search& s) {
    if (!is_portion(s.chunk)) {
        const chunk_record& r = s.h.records[first_segment(s.chunk)];
        const std::uint32_t blocks = r.lanes.get() & ~interleaved_flag;
        // Only the leader has acquired what `realloc` may have changed (large/extend.cuh).
        const std::uint32_t segments = from_leader(s.peers, is_leader(s.peers) ? r.segments.get() : 0);
        ORCHARD_NO_UNROLL
        for (auto i = static_cast<std::uint32_t>(simt::rank_in(s.peers)); i < blocks;
             i += static_cast<std::uint32_t>(simt::popcount(s.peers))) {
            const std::uint32_t segment = segment_of_block(s, i);
            if (i == 0 && segment != 0) {
                clear_descriptor(s, 0);  // `mark_first_segment`
            }
            if (segment < segments && (i == 0 || segment_of_block(s, i - 1) != segment)) {
                clear_descriptor(s, segment);
            }
        }
    }
    simt::sync(s.peers);  // the leader's put releases the stores of all lanes
    if (is_leader(s.peers)) {
        s.h.add(counter::live_chunks, ~std::uint64_t{0});
    }
}

/// Finds the memory of a chunk that has ended: sets `s.memory`.
inline ORCHARD_NOINLINE void find_memory(block_search& s) {
    s.memory.first = first_leaf(s.chunk);
    if (is_portion(s.chunk)) {
        s.memory.leaves = portion_record::leaves_of(s.h.portion_records[s.memory.first].shape.get());
    } else {
        const chunk_record& r = s.h.records[first_segment(s.chunk)];
        s.memory.leaves = r.segments.get() * leaves_per_segment + r.leaves.get();
    }
}

/// Puts a tail into the segment cache. One lane calls it alone, which has acquired the writes of others to it.
inline ORCHARD_NOINLINE void put_tail(const heap_view& h, std::uint32_t tail, std::uint32_t leaves) {
    clear_line_of(h, tail);
    portion_put(h, tail, leaves);
}

/// Returns the tail of a chunk that has ended to the segment cache, if it lies elsewhere. Otherwise does nothing. One
/// lane calls it alone, before `return_chunk`, which then returns the segments. Cost: a load, two if there is such a
/// tail; then as `portion_put`.
inline ORCHARD_NOINLINE void return_tail(const block_search& s) {
    if (is_portion(s.chunk)) {
        return;
    }
    chunk_record& record = s.h.records[first_segment(s.chunk)];
    const std::uint32_t leaves = record.leaves.get();
    if ((leaves & pooled_tail_flag) != 0) {
        record.leaves.set(0);
        put_tail(s.h, record.tail.get(), leaves & ~pooled_tail_flag);
    }
}

/// Puts the memory of an ended chunk into the chunk store or, if that has no place for it, into the segment cache. One
/// lane calls it alone. `clear_live` acquired the writes of all lanes, and the put releases them to the next owner.
/// From the put on, a group that takes the memory owns the record, and may write it.
ORCHARD_INLINE void return_chunk(block_search& s) {
    find_memory(s);
    if (!store_chunk(s.memory)) {
        put_pieces(s.memory);
    }
}

/// Ends the search: frees the block found, together with the lanes that come here at the same time and have found
/// blocks of the same chunk. The leader of the group that frees the last block puts the chunk's memory into the chunk
/// store. Returns false if no block of this lane was freed. Any lanes call it, in any divergence. Cost: eight
/// collectives, two atomics for each chunk; for the last block of a chunk also `end_chunk` and `return_chunk`.
/// @tparam Arrays  the lane frees an array, so that the chunk's tail may lie elsewhere
template <bool Arrays = false>
ORCHARD_INLINE bool free_found(block_search& s) {
    if (!find_peers(s)) {
        return false;
    }
    clear_live(s);
    if (s.last) {
        end_chunk(s);
        if (is_leader(s.peers)) {
            if constexpr (Arrays) {
                return_tail(s);
            }
            return_chunk(s);
        }
    }
    return s.right;
}

/// Frees one lane's block of a chunk. The lanes that call it together free together (`free_found`). Returns false if no
/// block in use begins at the address. Any lanes call it, in any divergence. It sends no request. It waits at most for
/// another lane that is clearing the same line of portion bitmaps (`clear_line_of`). Cost: five to eleven loads, and
/// `free_found`.
ORCHARD_INLINE bool free_from_chunk(block_search& s) {
    if (is_in_heap(s)) {
        find_block(s);
    }
    return free_found(s);
}

}  // namespace orchard::device
