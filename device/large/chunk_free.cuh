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
///         clear_live            the bit; the last one ends the chunk
///         end_chunk             descriptors of its segments
///         return_chunk          segments and tail go into the segment cache
///
/// A double free ends at `look_at_live` (the chunk has ended) or at the block's own bit (it has not), unless the memory
/// has another owner already. Of two frees of one block that race with each other, the atomic in `clear_live` lets one
/// succeed, on the same condition.

#include "device/large/chunk_path.cuh"
#include "device/segment_cache/segment_cache.cuh"

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
    segment_run run;           ///< segments of a chunk that has ended, to be put into the segment cache

    ORCHARD_FN block_search(const heap_view& heap, const void* p)
        : h{heap}, offset{static_cast<std::uint64_t>(static_cast<const char*>(p) - heap.base)} {}
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
    const std::uint64_t d = s.h.descriptors[first].load<order::acquire>();
    return descriptor::kind(d) == segment_kind::chunk && descriptor::extent(d) == first;
}

/// Finds the chunk that contains the address, if any: sets `s.chunk` and `s.units`. The descriptor names the first
/// segment of a chunk; in a segment of portions, the owner word of the leaf names the chunk.
inline ORCHARD_NOINLINE void find_chunk(block_search& s) {
    // Pairs with the release that set the descriptor (`write_owners`): the chunk's record was written before.
    const std::uint64_t d = s.h.descriptors[s.offset >> segment_shift].load<order::acquire>();
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

/// The result of freeing a block.
enum class freed_block : std::uint32_t {
    wrong,  ///< it was not in use
    right,
    last,  ///< it was the last block of the chunk in use
};

/// Clears the block's bit in `live`. Cost: one atomic, whose old value decides between lanes that free the same block,
/// and names the one lane that ends the chunk.
inline ORCHARD_NOINLINE freed_block clear_live(block_search& s) {
    const std::uint32_t bit = 1u << s.block;
    // Releases this lane's writes to the block; the last lane acquires those of all lanes.
    simt::mutation::weaken_next(fault::live_order);
    const std::uint32_t before = live_of(s).fetch_and<order::acq_rel>(~bit);
    return (before & bit) == 0 && !simt::mutation::is(fault::racing_free) ? freed_block::wrong
           : before == bit                                                ? freed_block::last
                                                                          : freed_block::right;
}

/// Clears the descriptor of segment `first + i` of a chunk that has ended. No read-modify-write is needed, since this
/// lane is the segment's only owner.
inline ORCHARD_NOINLINE void clear_descriptor(const block_search& s, std::uint32_t i) {
    auto& d = s.h.descriptors[first_segment(s.chunk) + i];
    d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::none, 0, 0));
}
/// Returns the number of the chunk's segment in which block `i` begins, from 0.
inline ORCHARD_NOINLINE std::uint32_t segment_of_block(const block_search& s, std::uint32_t i) {
    return s.h.records[first_segment(s.chunk)].offset[i].get() >> (segment_shift - chunk_unit_shift);
}
inline ORCHARD_NOINLINE void count_ended(const block_search& s) { s.h.add(counter::live_chunks, ~std::uint64_t{0}); }

/// Ends a chunk whose last block was freed: clears the descriptors of its segments. One lane calls it alone. Only
/// segments in which a block begins have a descriptor (`write_owners`). A segment of portions keeps its kind, since
/// other portions of it may be in use.
ORCHARD_INLINE void end_chunk(block_search& s) {
    if (!is_portion(s.chunk)) {
        // The tail lies beyond the chunk's segments, and its blocks are skipped. Offsets are read from the last block
        // down, so that blocks of one segment come one after the other, and each segment is cleared once.
        std::uint32_t last = s.h.records[first_segment(s.chunk)].segments.get();
        ORCHARD_NO_UNROLL
        for (std::uint32_t left = s.h.records[first_segment(s.chunk)].lanes.get() & ~interleaved_flag; left != 0;
             --left) {
            if (const std::uint32_t segment = segment_of_block(s, left - 1); segment < last) {
                clear_descriptor(s, segment);
                last = segment;
            }
        }
    }
    count_ended(s);
}

/// Finds the tail of a chunk that has ended: its first leaf, counted from the heap's first (`s.units`), and its number
/// of leaves (`s.block`; 0: there is none). These fields no longer describe the block.
inline ORCHARD_NOINLINE void find_tail(block_search& s) {
    s.units = first_leaf(s.chunk);
    if (is_portion(s.chunk)) {
        s.block = portion_record::leaves_of(s.h.portion_records[s.units].shape.get());
    } else {
        const chunk_record& r = s.h.records[first_segment(s.chunk)];
        s.units += r.segments.get() * leaves_per_segment;
        s.block = r.leaves.get();
    }
}
inline ORCHARD_NOINLINE void clear_line_of(const block_search& s) { clear_line_of(s.h, s.units); }

/// Puts the memory of an ended chunk into the segment cache. One lane calls it alone. `clear_live` acquired the writes
/// of all lanes, and the puts release them to the next owner.
ORCHARD_INLINE void return_chunk(block_search& s) {
    // All fields of the record are read before the first put: a group that takes the segments owns the record, and may
    // write it. The tail comes after the segments, because a search for segments with a tail starts from tails
    // (`look_before_tail`): a group that sees this tail usually sees the segments before it, too.
    find_tail(s);
    if (!is_portion(s.chunk)) {
        s.run = {segment_index{first_segment(s.chunk)}, s.h.records[first_segment(s.chunk)].segments.get()};
        cache_put_all(s.h, s.run);
    }
    if (s.block != 0) {
        clear_line_of(s);
        portion_put(s.h, s.units, s.block);
    }
}

/// Ends the search: frees the block found. The lane that frees the last block puts the chunk's memory into the segment
/// cache. Returns false if no block was freed.
ORCHARD_INLINE bool free_found(block_search& s) {
    const freed_block freed = s.chunk == block_search::nothing ? freed_block::wrong : clear_live(s);
    if (freed == freed_block::last) {
        end_chunk(s);
        return_chunk(s);
    }
    return freed != freed_block::wrong;
}

/// Frees one lane's block of a chunk. The lane that frees the last block puts the chunk's memory into the segment
/// cache. Returns false if no block in use begins at the address. One lane calls it alone. It sends no request. It
/// waits at most for another lane that is clearing the same line of portion bitmaps (`clear_line_of`). Cost: five to
/// eleven loads and one atomic; for the last block of a chunk also `end_chunk` and `return_chunk`.
ORCHARD_INLINE bool free_from_chunk(block_search& s) {
    if (!is_in_heap(s)) {
        return false;
    }
    find_block(s);
    return free_found(s);
}

}  // namespace orchard::device
