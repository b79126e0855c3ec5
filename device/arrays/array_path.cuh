// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Allocation and freeing of one lane's interleaved array: the calls that `heap_ref::allocate_array` and `free_array`
/// make if the array is not known to be linear (heap_arrays_impl.cuh). Groups are formed here; array_layout.cuh has the
/// layout of a group.

#include "device/arrays/array_layout.cuh"
#include "device/large/large_path.cuh"
#include "uvm/geometry/block_request.hpp"

namespace orchard::device {

/// If the layout is the heap's choice, lanes that ask for less than this together get linear blocks, because an
/// interleaved chunk takes whole leaves of 64 KiB.
inline constexpr std::uint32_t least_interleaved_bytes = static_cast<std::uint32_t>(big_page_bytes / 4 * 3);

/// Returns true if the group gets linear blocks: a lane alone, which has nothing to alternate with; and a group that
/// left the choice to the heap and asks for less than `least_interleaved_bytes` in all. All lanes of a converged group
/// call it. Cost: a reduction, if the heap chooses.
inline ORCHARD_NOINLINE bool prefers_linear(const lanes_request& r, layout::choice which) {
    if (r.mask == lane_mask{1} << simt::lane_id()) {
        return true;
    }
    if (which == layout::choice::interleaved) {
        return false;
    }
    // Each lane counts up to the limit only, so that the sum of 32 lanes fits 32 bits.
    const std::uint32_t counted =
        r.bytes < least_interleaved_bytes ? static_cast<std::uint32_t>(r.bytes) : least_interleaved_bytes;
    return simt::reduce_add(r.mask, counted) < least_interleaved_bytes;
}

/// Reports a lane's new array. In reports, an array is named by the offset of its sub-array plus the lane in the order
/// of the record. No two arrays have the same name: a sub-array is longer than its last lane's number.
inline ORCHARD_NOINLINE void report_array(const lanes_request& r) {
    const block_request asked{request_kind::array, r.log_turn, static_cast<std::uint32_t>(simt::popcount(r.mask))};
    report_block(r.h, device_event::block_allocated, r.h.offset_of(r.block) + r.position, r.bytes, asked.word());
}
/// Reports that a lane's array is about to be freed; `s` is the search for its sub-array.
inline ORCHARD_NOINLINE void report_array_free(block_search& s, std::uint32_t lane) {
    event_call e(*s.h.events, device_event::block_freed, s.h.offset_of(s.address()) + lane, 0, 0);
    report(e);
}

/// Gets a place for this lane's array of `bytes` > 0; converged lanes that want the same layout from this heap get
/// theirs interleaved. Sets `place.linear` if a linear block is to be used instead; otherwise `place.chunk` is the
/// array's sub-array, or null after a failure, which is recorded. Any lanes call it, in any divergence.
///
/// Cost: a few collectives to form the groups, and `allocate_lanes`; after a shortage, it is repeated as long as blocks
/// that the host has freed turn up.
inline ORCHARD_NOINLINE void place_array(const heap_view& h, std::uint64_t bytes, const lane_wish& wish,
                                         lane_place& place) {
    // The tile: as asked for, but no smaller than an element. A heap that chooses for itself takes one element, 4 B at
    // least.
    const std::uint32_t log_element = log_of_units(wish.element);
    const std::uint32_t log_asked =
        wish.how.which == layout::choice::interleaved ? log_of(wish.how.turn) : log_of(smallest_tile);
    const std::uint32_t log_turn = log_asked > log_element ? log_asked : log_element;
    constexpr std::uint32_t log_page = log_of(tile::k4);
    // Sizes count in OS pages if tiles are above 4 KiB, since the rest beyond whole tiles lies in smaller ones. An
    // element of more than an OS page would then lie in two rows, so that sizes count in whole tiles.
    const std::uint32_t log_unit = log_turn > log_page && log_element <= log_page ? log_page : log_turn;
    // Less than an OS page is no part of rows of pages: a small block holds it in less memory.
    place.linear = log_unit < log_turn && bytes < os_page_bytes;
    if (place.linear) {
        return;
    }
    const lane_mask here = simt::converge();
    // Two matches, as a lane may ask another heap: first the lanes of this heap, then those of them with the same
    // layout and advice.
    const std::uint32_t kind =
        std::uint32_t{wish.advice} << 24 | static_cast<std::uint32_t>(wish.how.which) << 16 | log_turn << 8 | log_unit;
    const lane_mask of_heap = simt::match(here, reinterpret_cast<std::uintptr_t>(h.state));
    lanes_request r{{h, sharing_lanes(h, simt::match(of_heap, kind)), bytes, wish.alignment}, log_turn, log_unit};
    r.advice = wish.advice;
    place.linear = prefers_linear(r, wish.how.which);
    if (!place.linear) {
        count_large_group(r);
        ORCHARD_NO_UNROLL
        do {
            allocate_lanes(r);
        } while (r.block == nullptr && may_ask_again(r));  // each lane decides for itself, and may go on alone
        if (r.block == nullptr) {
            count_large_failure(r);
        }
        // The record's sub-array begins at the table, the array at the common rows behind that (`free_array_of`).
        const bool has_table = r.block != nullptr && r.map.ragged != 0;
        place.chunk = has_table ? static_cast<char*>(r.block) + os_page_bytes : r.block;
        place.map = r.map;
        place.position = position_of(h.order_of_lanes, r.map.width, r.position);
        place.shift = r.shift;
        if (r.block != nullptr && h.reports_blocks()) {
            report_array(r);
        }
    }
}

/// Frees the array of the lane at `position` in a sub-array of `width` lanes that begins at `chunk`. If there is no
/// such array, it records an invalid free and changes nothing. Any lanes call it. Cost: `free_lane`.
///
/// The record numbers lanes in their own order, while a `lane_array` knows the lane's position in the rows; `lane_at`
/// turns one into the other (uvm/geometry/lane_order.hpp).
inline ORCHARD_NOINLINE void free_array_of_lane(const heap_view& h, const void* chunk, std::uint32_t width,
                                                std::uint32_t position) {
    block_search s(h, chunk);
    const std::uint32_t lane = lane_at(h.order_of_lanes, width, position);
    if (s.h.reports_blocks()) {
        report_array_free(s, lane);
    }
    if (!free_lane(s, lane)) {
        record_invalid_free(s.h, s.address());
    }
}

}  // namespace orchard::device
