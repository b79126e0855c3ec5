// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/heap_ref.cuh"
#include "device/heap_ref_impl.cuh"

namespace orchard {

namespace device {

/// Where the choice is the heap's, lanes that ask for less than this together get plain blocks: an interleaved chunk
/// takes whole leaves of 64 KiB.
inline constexpr std::uint32_t least_interleaved_bytes = static_cast<std::uint32_t>(big_page_bytes / 4 * 3);

/// Whether the group gets plain blocks. All lanes of a converged group.
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

/// A place for this lane's array of `bytes`, above 0, where lanes that want the same layout of this heap are to have
/// theirs interleaved. Any lanes; those that come together share.
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
        } while (may_ask_again(r));  // each lane for itself: so they have come apart
        count_large_failure(r);
        place.chunk = r.block;
        place.map = r.map;
        place.position = position_of(h.order_of_lanes, r.map.width, r.position);
    }
}

/// Frees one lane's interleaved array of a sub-array of `width` lanes. Any lane, alone.
inline ORCHARD_NOINLINE void free_array_of_lane(const heap_view& h, const void* chunk, std::uint32_t width,
                                                std::uint32_t position) {
    block_search s(h, chunk);
    if (free_lane(s, lane_at(h.order_of_lanes, width, position))) {
        s.h.add(counter::frees, 1);
    } else {
        record_invalid_free(s.h, s.address());
    }
}

}  // namespace device

template <class Policy>
template <class T>
ORCHARD_FN lane_array<T> basic_heap_ref<Policy>::allocate_array(std::uint64_t count, layout how) const {
    static_assert(device::fits_tiles<T>, "sizeof(T) must be a power of two, at most 64 KiB: pad it, with alignas");
    if (count == 0) {
        return {};
    }
    const std::uint64_t bytes = count * sizeof(T);
    if (bytes / sizeof(T) != count) {
        device::record_failure(*view_.self, failure_reason::too_large, ~std::uint64_t{0}, chunk_class);
        return {};
    }
    const layout wanted = how.which == layout::choice::automatic ? view_.arrays : how;
    if (wanted.which != layout::choice::linear) {
        device::lane_place at;
        device::place_array(*view_.self, bytes, {wanted, sizeof(T), alignof(T)}, at);
        if (!at.linear) {
            return at.chunk != nullptr ? lane_array<T>(at.chunk, at.map, at.position, count) : lane_array<T>();
        }
    }
    void* const p = alignof(T) <= lane_alignment ? malloc(bytes) : aligned_alloc(alignof(T), bytes);
    return p != nullptr ? lane_array<T>::linear(static_cast<T*>(p), count) : lane_array<T>();
}

template <class Policy>
template <class T>
ORCHARD_FN void basic_heap_ref<Policy>::free_array(const lane_array<T>& a) const {
    if (a.empty()) {
        return;
    }
    // An interleaved array's map is none like this: `choose_width`.
    if (a.map() == lane_map::linear()) {
        return free(a.chunk());
    }
    device::free_array_of_lane(*view_.self, a.chunk(), a.map().width, a.position());
}

}  // namespace orchard
