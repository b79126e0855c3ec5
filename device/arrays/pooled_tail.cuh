// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Chunks of interleaved arrays whose tail does not lie behind their segments, but where a VA block of portions has
/// room (`tail_policy::pooled`): such a tail opens no VA block for its chunk alone.
///
///     cut_tail               is the tail to lie elsewhere?
///     get_parts              the tail first, then the segments; both or none
///     return_tail            when the chunk ends (large/chunk_free.cuh)
///
///     lanes of one length            | full rows fill the segments |     tail: | tail rows |
///     lanes of different lengths     | ... | table | common rows |       tail: | steps | ...
///
/// Rows that are reached fastest lie in the segments: full rows, and common rows. So the tail stays behind the segments
/// if it would have a part of them. Lanes of one length: their full rows must fill whole segments; with tiles of 64
/// KiB, those of 32 lanes always do, those of 16 lanes in every second case. Lanes of different lengths: the table,
/// which precedes the common rows, must lie in the segments. The tail also stays there with tiles of at most 4 KiB, and
/// where `lane_ptr` serves the arrays, whose addresses are not translated. A tail that the policy `padded` rounds up to
/// a segment is none.
///
/// Source: Zhang et al., AlignMalloc, TPDS 2025, section V-B: what is under 2 MiB goes into the portion space.

#include "device/arrays/lanes_request.cuh"

namespace orchard::device {

/// Decides whether the tail of the chunk is to lie elsewhere: then sets `r.tail_leaves`, and makes the request one for
/// the tail alone. If the lanes differ in length, also sets `r.cut`, and `r.offset` and `r.total` then count from the
/// beginning of the segments. Each lane calls it for itself, after `choose_shape`; the result is the same in all lanes
/// of one sub-array. No memory access.
inline ORCHARD_NOINLINE void cut_tail(lanes_request& r) {
    r.tail_leaves = 0;
    r.shift = 0;
    if (r.h.tails_by != tail_policy::pooled || r.k == 0 || r.leaves == 0) {
        return;
    }
    if (r.map.ragged == 0) {
        // Otherwise `lane_ptr` serves the arrays, or other rows than tail rows would lie in the tail.
        if (r.map.pages == 0 || r.map.bytes_before_tail_rows() != std::uint64_t{r.k} * segment_bytes) {
            return;
        }
    } else {
        const std::uint64_t rest = r.total - (std::uint64_t{r.k} << (segment_shift - chunk_unit_shift));
        if (rest > r.offset) {
            return;  // the table, which begins at `r.offset`, would lie in the tail
        }
        r.cut = static_cast<std::uint32_t>(rest >> (log_of(tile::k4) - chunk_unit_shift));
        r.offset -= rest;
        r.total -= rest;
        r.map.ragged = static_cast<std::uint8_t>(r.map.ragged | lane_map::pooled_flag);
    }
    // The first request is for the tail alone, and for no bytes of the lanes (`get_parts`).
    r.tail_leaves = r.leaves;
    r.segments = r.k;
    r.lane_bytes = r.bytes;
    r.k = 0;
    r.bytes = 0;
}

/// Restores the request for a chunk, after that for its tail: the segments alone. Each lane calls it for itself.
ORCHARD_INLINE void end_tail_request(lanes_request& r) {
    r.k = r.segments;
    r.leaves = 0;
    r.bytes = r.lane_bytes;
}

/// Sets the place of the tail in the request and in the chunk's record, after the chunk has both parts. All lanes of
/// the group call it. The leader writes the record, whose memory it has acquired.
inline ORCHARD_NOINLINE void note_tail(lanes_request& r) {
    const std::uint32_t chunk = to_underlying(r.got.first) * leaves_per_segment;
    r.shift = r.map.ragged == 0 ? static_cast<std::int32_t>(r.tail - (chunk + r.k * leaves_per_segment)) : 0;
    if (is_leader(r.mask)) {
        // The chunk store may have given a longer chunk, with a tail of its own.
        if (const std::uint32_t behind = to_underlying(r.got.leaves); behind != 0) {
            put_tail(r.h, chunk + r.got.count * leaves_per_segment, behind);
        }
        r.h.records[to_underlying(r.got.first)].tail.set(r.tail);
    }
    r.got.leaves = leaf_count{r.tail_leaves | pooled_tail_flag};
}

/// The same as `get_memory`, not inlined: the caller would need four registers more.
inline ORCHARD_NOINLINE void get_memory_of_lanes(lanes_request& r) { get_memory(r); }

/// Turns the request for a tail into that for the segments, after the group got the tail. Returns false if the group
/// has all that it asked for. All lanes of the group call it.
inline ORCHARD_NOINLINE bool ask_for_segments(lanes_request& r) {
    if (r.tail_leaves == 0 || r.bytes != 0) {
        return false;
    }
    r.tail = begin_of(r);
    end_tail_request(r);
    r.got_before = segments_got(r.h, r.mask);  // the tail is no other group's
    return true;
}

/// Ends the requests for a chunk whose tail lies elsewhere: notes both parts, or gives the tail back if the request for
/// the segments failed. All lanes of the group call it.
///
/// After a shortage, the tail may hold a VA block that a smaller request needs as a segment. The parts of the group
/// then need a reclaim that begins after the tail's return.
inline ORCHARD_NOINLINE void end_parts(lanes_request& r) {
    if (r.bytes == 0) {
        end_tail_request(r);  // there was no memory for the tail
    } else if (r.why == failure_reason::none) {
        note_tail(r);
    } else {
        if (is_leader(r.mask)) {
            put_tail(r.h, r.tail, r.tail_leaves);
        }
        if (is_shortage(r.why)) {
            need_reclaim(r);
        }
    }
}

/// Gets the memory of a chunk, also of one whose tail lies elsewhere: sets `r.why`. Of such a chunk, the group holds
/// both parts afterwards, or none. All lanes of the group call it, after `place_lanes`. Cost: as `get_memory`, twice if
/// the tail lies elsewhere.
///
/// The tail comes first, and counts as no chunk: the request for the segments counts the chunk. The loop calls
/// `get_memory` at one place, and its state is in the request, for which no register is needed.
ORCHARD_INLINE void get_parts(lanes_request& r) {
    ORCHARD_NO_UNROLL
    do {
        get_memory_of_lanes(r);
    } while (r.why == failure_reason::none && ask_for_segments(r));
    if (r.tail_leaves != 0) {
        end_parts(r);
    }
}

}  // namespace orchard::device
