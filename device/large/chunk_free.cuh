// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// From an address to the block of a chunk, and its freeing.

#include "device/large/chunk_path.cuh"
#include "device/segment_cache/segment_cache.cuh"

namespace orchard::device {

/// The record of a chunk.
inline ORCHARD_FN chunk_blocks blocks_of(const heap_view& h, chunk_id c) {
    return is_portion(c) ? chunk_blocks(h.portion_records[first_leaf(c)]) : chunk_blocks(h.records[first_segment(c)]);
}

/// A search for the block of a chunk at an address: phases of few registers each, as `mailbox_client.cuh` says why.
/// Any lane, alone.
struct block_search {
    static constexpr chunk_id nothing{0xffffffffu};

    const heap_view& h;
    std::uint64_t offset;      ///< of the address in the heap
    chunk_id chunk = nothing;  ///< the result: `nothing` where no block begins there
    std::uint32_t block = 0;   ///< its number in the chunk
    std::uint32_t units = 0;   ///< where it begins in it
    std::uint32_t live = 0;    ///< lanes of the chunk that had not freed when the search began
    segment_run run;           ///< of a chunk that has ended, to be put into the segment cache

    ORCHARD_FN block_search(const heap_view& heap, const void* p)
        : h{heap}, offset{static_cast<std::uint64_t>(static_cast<const char*>(p) - heap.base)} {}
    /// What was asked for, which may be outside the heap: no arithmetic of pointers leads there.
    [[nodiscard]] ORCHARD_INLINE const void* address() const {
        return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(h.base) + offset);
    }
};

inline ORCHARD_NOINLINE bool is_in_heap(const block_search& s) { return s.h.owns_offset(s.offset); }

/// Returns whether the chunk that a leaf names can have a record: a portion lies in the segment of its leaf, and the
/// first segment of any other chunk says that it is one. Without this, a wrong free could read memory that is not
/// mapped.
inline ORCHARD_NOINLINE bool has_record(const block_search& s) {
    const std::uint32_t first = first_segment(s.chunk);
    if (is_portion(s.chunk)) {
        return first == s.offset >> segment_shift;
    }
    const std::uint64_t d = s.h.descriptors[first].load<order::acquire>();
    return descriptor::kind(d) == segment_kind::chunk && descriptor::extent(d) == first;
}

/// Finds the chunk that the address would be in.
inline ORCHARD_NOINLINE void find_chunk(block_search& s) {
    // Pairs with the release that made the segment what it is: behind it lies the chunk's record.
    const std::uint64_t d = s.h.descriptors[s.offset >> segment_shift].load<order::acquire>();
    if (descriptor::kind(d) == segment_kind::chunk) {
        s.chunk = chunk_of_segments(descriptor::extent(d));
    } else if (descriptor::kind(d) == segment_kind::portions) {
        s.chunk = chunk_id{s.h.leaf_owners[s.offset / big_page_bytes].load<order::relaxed>()};
    } else {
        return;
    }
    // The owner's word may name a chunk that begins behind the block, if another thread has rewritten it meanwhile; or
    // anything, if no block ever began in this leaf: such words are not cleared.
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

/// Before the record is looked at: while nobody is live in a chunk it may be rewritten, for the next one that begins
/// there. What is freed a second time ends here, or at the block's own bit.
inline ORCHARD_NOINLINE void look_at_live(block_search& s) {
    // Pairs with the release in `publish_live`: what is live is described.
    s.live = live_of(s).load<order::acquire>();
    if (simt::mutation::is(fault::live_look)) {
        s.live = ~0u;
    }
    if (s.live == 0) {
        s.chunk = block_search::nothing;
    }
}

/// The block of those of a record that begins at `s.units`, by `offset(i)` of the `lanes` blocks.
template <class Offset>
ORCHARD_INLINE void find_among(block_search& s, std::uint32_t lanes, Offset offset) {
    // Mostly each lane frees what it got itself, in a warp that was whole, or a part of it. More lanes than there can
    // be: something has been rewritten meanwhile.
    const auto own = static_cast<std::uint32_t>(simt::lane_id());
    const std::uint32_t guess = own < lanes ? own : own & (lanes - 1);
    std::uint32_t low = guess < lanes && lanes <= simt::warp_size && offset(guess) == s.units ? guess : 0;
    std::uint32_t high = lanes > simt::warp_size ? 0 : lanes;
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
inline ORCHARD_NOINLINE void find_in_portion(block_search& s) {
    const portion_record& r = s.h.portion_records[first_leaf(s.chunk)];
    const std::uint32_t shape = r.shape.get();
    if (!portion_record::is_stamped(shape, s.h.stamp)) {
        s.chunk = block_search::nothing;
        return;
    }
    find_among(s, shape & 0xff, [&](std::uint32_t i) { return r.offsets[i / 2].get() >> i % 2 * 16 & 0xffff; });
}

/// Finds the block that begins at the address and is in use. Cost: five to eleven loads.
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

/// Bytes of the block that was found.
inline ORCHARD_NOINLINE std::uint64_t live_bytes(const block_search& s) {
    return std::uint64_t{blocks_of(s.h, s.chunk).offset(s.block + 1) - s.units} << chunk_unit_shift;
}

/// Returns the bytes of the block in a chunk that begins at an address; 0: there is none. Any lane, alone.
ORCHARD_INLINE std::uint64_t bytes_in_chunk(const heap_view& h, const void* p) {
    block_search s(h, p);
    find_block(s);
    return s.chunk == block_search::nothing ? 0 : live_bytes(s);
}

/// What freeing a block came to.
enum class freed_block : std::uint32_t {
    wrong,  ///< it was not allocated
    right,
    last,  ///< and no block of the chunk is in use any more
};

/// Clears the block's bit. Cost: one atomic.
inline ORCHARD_NOINLINE freed_block clear_live(block_search& s) {
    const std::uint32_t bit = 1u << s.block;
    // Releases this lane's writes; the last one acquires everybody's.
    simt::mutation::weaken_next(fault::live_order);
    const std::uint32_t before = live_of(s).fetch_and<order::acq_rel>(~bit);
    return (before & bit) == 0 ? freed_block::wrong : before == bit ? freed_block::last : freed_block::right;
}

/// Takes the descriptor of segment `first + i` of a chunk that has ended away.
inline ORCHARD_NOINLINE void clear_descriptor(const block_search& s, std::uint32_t i) {
    auto& d = s.h.descriptors[first_segment(s.chunk) + i];
    d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::none, 0, 0));
}
/// The segment of its chunk in which block `i` begins.
inline ORCHARD_NOINLINE std::uint32_t segment_of_block(const block_search& s, std::uint32_t i) {
    return s.h.records[first_segment(s.chunk)].offset[i].get() >> (segment_shift - chunk_unit_shift);
}
inline ORCHARD_NOINLINE void count_ended(const block_search& s) { s.h.add(counter::live_chunks, ~std::uint64_t{0}); }

/// Ends a chunk whose last lane has freed: takes the descriptors of its segments away. Any lane, alone.
ORCHARD_INLINE void end_chunk(block_search& s) {
    if (!is_portion(s.chunk)) {
        // Blocks in the tail begin in no segment of the chunk's own.
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

/// Finds the tail of a chunk that has ended: where it lies, counted in leaves from the heap's first (`s.units`), and
/// how many leaves it has (`s.block`).
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

/// Puts the memory of a chunk that has ended into the segment cache. Any lane, alone.
ORCHARD_INLINE void return_chunk(block_search& s) {
    find_tail(s);
    // The tail last: a search that finds it looks for the segments before it, whose record belongs to the group that
    // takes them.
    if (!is_portion(s.chunk)) {
        s.run = {segment_index{first_segment(s.chunk)}, s.h.records[first_segment(s.chunk)].segments.get()};
        cache_put_all(s.h, s.run);
    }
    if (s.block != 0) {
        clear_line_of(s);
        portion_put(s.h, s.units, s.block);
    }
}

/// What follows when the search is over: frees what was found; the last lane puts the chunk's memory into the segment
/// cache. False where nothing was.
ORCHARD_INLINE bool free_found(block_search& s) {
    const freed_block freed = s.chunk == block_search::nothing ? freed_block::wrong : clear_live(s);
    if (freed == freed_block::last) {
        end_chunk(s);
        return_chunk(s);
    }
    return freed != freed_block::wrong;
}

/// Frees one lane's block of a chunk; the last lane puts the chunk's memory into the segment cache. Any lane, alone.
/// Never waits, and needs no mailbox. False where the address is no such block.
ORCHARD_INLINE bool free_from_chunk(block_search& s) {
    if (!is_in_heap(s)) {
        return false;
    }
    find_block(s);
    return free_found(s);
}

}  // namespace orchard::device
