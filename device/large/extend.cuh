// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Growth of a large block in place, for `realloc`.
///
///     extend_block
///       find_end              is it the last block of a chunk of whole segments?
///       extend_alone          one lane after the other
///         choose_more         how many segments are needed
///         take_cached_behind  those behind the chunk, from the segment cache
///         may_be_free, ask_behind
///                             the rest of them, from the host
///         write_end
///
///     chunk of 3 segments   | block 0    | block 1      . . |               the rest of the chunk is used first
///     and 2 more            | block 0    | block 1                  . . |   if the next segments are free
///
/// Only the last block of a chunk can grow, and only if no tail follows its segments. Chunks of 16 to 2,047 segments
/// usually have none, as requests for them are rounded up (`round_request`). The end of the last block, and the number
/// of segments, are read by the owner of that block alone, and by the lane that ends the chunk; the atomic in
/// `clear_live` orders that lane after the owner.

#include "device/large/chunk_free.cuh"
#include "device/reclaim/acquire.cuh"

namespace orchard::device {

/// A large block that is to grow, in phases that need few registers each (host_rpc/client.cuh says why). Each lane has
/// its own.
struct block_extension {
    const heap_view& h;
    std::uint32_t first = 0;     ///< first segment of the chunk
    std::uint32_t segments = 0;  ///< of the chunk
    std::uint32_t more = 0;      ///< segments wanted behind it
    std::uint32_t cached = 0;    ///< number of these that came from the segment cache
    std::uint32_t lanes = 0;     ///< blocks of the chunk
    std::uint64_t end = 0;       ///< wanted end of the block in the chunk, in units of 256 B
    lane_mask left = 0;          ///< lanes that are still to extend their blocks
    bool done = false;           ///< the block reaches up to `end`
};

/// Returns the first of the wanted segments that the lane does not have yet.
ORCHARD_INLINE std::uint32_t next_wanted(const block_extension& x) { return x.first + x.segments + x.cached; }

/// Finds the chunk in which the block at `p` is the last one: sets the fields of `x`. Returns false if there is none,
/// or if a tail follows its segments, or if the chunk would be longer than a record can describe. Each lane calls it
/// for itself. Cost: as `find_block`, and four loads.
inline ORCHARD_NOINLINE bool find_end(block_extension& x, const void* p, std::uint64_t bytes) {
    block_search s(x.h, p);
    if (!is_in_heap(s) || bytes > max_chunk_bytes / 2) {
        return false;
    }
    find_block(s);
    if (s.chunk == block_search::nothing || is_portion(s.chunk)) {
        return false;
    }
    const chunk_record& r = x.h.records[first_segment(s.chunk)];
    x.first = first_segment(s.chunk);
    x.lanes = r.lanes.get();
    x.end = s.units + units_of(bytes);
    if (s.block + 1 != x.lanes || x.end > max_chunk_bytes >> chunk_unit_shift || r.leaves.get() != 0) {
        return false;
    }
    x.segments = r.segments.get();
    return true;
}

/// Chooses the number of segments to be taken, `x.more`. Returns false if they are more than one request can name, or
/// if the heap ends before them. One lane calls it alone.
inline ORCHARD_NOINLINE bool choose_more(block_extension& x) {
    const std::uint64_t segments = segments_for(x.end << chunk_unit_shift);
    x.cached = 0;
    x.more = 0;
    if (segments <= x.segments) {
        return true;
    }
    x.more = static_cast<std::uint32_t>(segments - x.segments);
    return x.more <= mailbox::max_give_back && x.first + segments <= x.h.segments;
}

/// Returns whether the host may have the rest of the segments wanted. One lane calls it alone. Cost: two loads. No if
/// the next segment is a slab or the beginning of another chunk, which lies there if lanes allocated one after the
/// other, or if the heap is known to be exhausted. Without this, each of 32 such lanes would ask the host in vain.
/// Relaxed: both are hints.
inline ORCHARD_NOINLINE bool may_be_free(const block_extension& x) {
    const segment_kind kind = descriptor::kind(x.h.descriptor(next_wanted(x)).load<order::relaxed>());
    return kind != segment_kind::slab && kind != segment_kind::chunk &&
           known_exhaustion(x.h, 0, std::uint64_t{x.more - x.cached} * leaves_per_segment) == failure_reason::none;
}

/// Takes those of the wanted segments out of the segment cache that lie there without a gap from the first one on:
/// `x.cached`. One lane calls it alone. Cost: a load; an atomic for each word of 64 segments that has some.
inline ORCHARD_NOINLINE void take_cached_behind(block_extension& x) {
    bool goes_on = true;
    ORCHARD_NO_UNROLL
    while (goes_on && x.cached != x.more) {
        const std::uint32_t next = next_wanted(x);
        const std::uint32_t low = next % 64;
        const std::uint32_t n = x.more - x.cached < 64 - low ? x.more - x.cached : 64 - low;
        const std::uint64_t bits = ~std::uint64_t{0} >> (64 - n) << low;
        auto& word = x.h.cache[next / 64];
        if ((word.load<order::relaxed>() >> low & 1) == 0) {
            return;
        }
        // Acquires what the last owner released (`cache_put_bits`).
        const std::uint64_t won = word.fetch_and<order::acquire>(~bits) & bits;
        const std::uint64_t gap = ~won & bits;
        const std::uint64_t kept = gap == 0 ? bits : won & ((gap & (~gap + 1)) - 1);
        if (kept != won) {
            cache_put_bits(x.h, next / 64, won & ~kept);  // the level still counts these
        }
        count_taken(x.h, segments_cached(x.h), simt::popcount(kept));
        x.cached += static_cast<std::uint32_t>(simt::popcount(kept));
        goes_on = gap == 0;
    }
}

/// Returns the request for the segments that the segment cache did not have.
ORCHARD_INLINE mailbox::request request_behind(const block_extension& x) {
    return {mailbox::request_kind::extend, 0, 0, {segment_index{next_wanted(x)}, x.more - x.cached}};
}

/// Returns whether the host has granted the rest of the segments wanted. One lane calls it alone. It waits for the
/// response, until the deadline of requests. Cost: a round trip.
inline ORCHARD_NOINLINE bool ask_behind(const block_extension& x) {
    segment_request d(x.h, lane_mask{1} << simt::lane_id());
    d.post.begin(request_behind(x), false);
    mailbox_client::post(d);
    if (d.post.made.failure != failure_reason::none) {
        return false;
    }
    const outcome o = mailbox_client::wait(d);
    count_request(d);
    return o.failure == failure_reason::none && o.result.status == response_status::granted;
}

/// Returns whether all segments wanted are this lane's now; otherwise it has taken none. One lane calls it alone.
inline ORCHARD_FN bool take_behind(block_extension& x) {
    take_cached_behind(x);
    if (x.cached == x.more || (may_be_free(x) && ask_behind(x))) {
        return true;
    }
    if (x.cached != 0 && !simt::mutation::is(fault::extend_undo)) {
        cache_put(x.h, {segment_index{x.first + x.segments}, x.cached});
    }
    return false;
}

/// Writes the new end of the block and of its chunk. One lane calls it alone.
inline ORCHARD_NOINLINE void write_end(const block_extension& x) {
    chunk_record& r = x.h.records[x.first];
    if (x.more != 0) {
        note_grant(x.h, {{segment_index{x.first + x.segments}, x.more}, leaf_index{0}, leaf_count{0}});
        r.segments.set(x.segments + x.more);
        note_served(x.h);
    }
    r.offset[x.lanes].set(static_cast<std::uint32_t>(x.end));
}

/// Extends the block if it can, and sets `x.done`. One lane calls it alone.
ORCHARD_INLINE void extend_alone(block_extension& x) {
    x.done = choose_more(x) && (x.more == 0 || (!is_closing(x.h) && take_behind(x)));
    if (x.done) {
        write_end(x);
    }
}

/// Returns whether the block at `p`, which is this lane's, has `bytes` bytes now, at the same address. Any lanes call
/// it, in any divergence; false changes nothing. Cost: as `find_block` if the block cannot grow; a round trip to the
/// host for each lane whose chunk is too short, one lane after the other.
inline ORCHARD_NOINLINE bool extend_block(const heap_view& h, const void* p, std::uint64_t bytes) {
    block_extension x{h};
    if (find_end(x, p, bytes)) {
        ORCHARD_NO_UNROLL
        for (x.left = simt::converge(); x.left != 0; x.left &= x.left - 1) {
            if (simt::lane_id() == simt::lowest_bit(x.left)) {
                extend_alone(x);
            }
        }
    }
    return x.done;
}

}  // namespace orchard::device
