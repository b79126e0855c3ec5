// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Allocation and freeing of one lane's interleaved array.

#include "device/arrays/array_layout.cuh"
#include "device/large/large_path.cuh"

namespace orchard::device {

/// If the layout is the heap's choice, lanes that ask for less than this together get linear blocks, because an
/// interleaved chunk takes whole leaves of 64 KiB.
inline constexpr std::uint32_t least_interleaved_bytes = static_cast<std::uint32_t>(big_page_bytes / 4 * 3);

/// Returns whether the group gets linear blocks. All lanes of a converged group call it.
inline ORCHARD_NOINLINE bool prefers_linear(const lanes_request& r, layout::choice which) {
    if (r.mask == lane_mask{1} << simt::lane_id()) {
        return true;
    }
    if (which == layout::choice::interleaved) {
        return false;
    }
    const std::uint32_t counted =
        r.bytes < least_interleaved_bytes ? static_cast<std::uint32_t>(r.bytes) : least_interleaved_bytes;
    return simt::reduce_add(r.mask, counted) < least_interleaved_bytes;
}

/// Gets a place for this lane's array of `bytes` > 0; converged lanes that want the same layout from this heap get
/// theirs interleaved. Sets `place.linear` if a linear block is to be used instead. Any lanes call it.
inline ORCHARD_NOINLINE void place_array(const heap_view& h, std::uint64_t bytes, const lane_wish& wish,
                                         lane_place& place) {
    const lane_mask here = simt::converge();
    const std::uint32_t log_element = log_of_units(wish.element);
    const std::uint32_t log_asked =
        wish.how.which == layout::choice::interleaved ? log_of(wish.how.turn) : log_of(smallest_tile);
    const std::uint32_t log_turn = log_asked > log_element ? log_asked : log_element;
    constexpr std::uint32_t log_page = log_of(tile::k4);
    // No element may lie in two rows.
    const std::uint32_t log_unit = log_turn > log_page && log_element <= log_page ? log_page : log_turn;
    const std::uint32_t kind = static_cast<std::uint32_t>(wish.how.which) << 16 | log_turn << 8 | log_unit;
    const lane_mask of_heap = simt::match(here, reinterpret_cast<std::uintptr_t>(h.state));
    lanes_request r{{h, sharing_lanes(h, simt::match(of_heap, kind)), bytes, wish.alignment}, log_turn, log_unit};
    place.linear = prefers_linear(r, wish.how.which);
    if (!place.linear) {
        count_large_group(r);
        ORCHARD_NO_UNROLL
        do {
            allocate_lanes(r);
        } while (may_ask_again(r));  // each lane decides for itself, so that `may_ask_again` may separate them
        count_large_failure(r);
        place.chunk = r.block;
        place.map = r.map;
        place.position = position_of(h.order_of_lanes, r.map.width, r.position);
    }
}

/// Frees one lane's array in a sub-array of `width` lanes. One lane calls it alone.
inline ORCHARD_NOINLINE void free_array_of_lane(const heap_view& h, const void* chunk, std::uint32_t width,
                                                std::uint32_t position) {
    block_search s(h, chunk);
    if (free_lane(s, lane_at(h.order_of_lanes, width, position))) {
        s.h.add(counter::frees, 1);
    } else {
        record_invalid_free(s.h, s.address());
    }
}

}  // namespace orchard::device
