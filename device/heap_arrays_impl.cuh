// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/heap_ref.cuh"
#include "device/slow_paths.cuh"

/// The implementation of `heap_ref::allocate_array` and `heap_ref::free_array`:
///
///     allocate_array   linear is wanted               malloc, or aligned_alloc above 16 B; with advice
///                                                     slow::allocate_large_advised, if it is no page
///                      otherwise: slow::place_array   array_path.cuh; it may choose linear for a small group
///     free_array       the map is that of linear      free
///                      otherwise                      slow::free_array_of_lane, array_path.cuh
///
/// The functions are templates of the heap's type, so that `published_ref` has the same arrays.
namespace orchard {

namespace device {

/// Returns an array of `count` elements from `heap`, or an empty one; implements `heap_ref::allocate_array` for every
/// type with that interface. Any lanes call it, in any divergence.
///
/// Errors: too_large if `count` * `sizeof(T)` overflows; those of `malloc` and of `place_array`. All are recorded for
/// the host; a count of 0 is no error.
/// @param advice  for the chunk, as a request names it; a constant 0 unless the call gives advice
template <class T, class Heap>
ORCHARD_FN lane_array<T> allocate_array_from(const Heap& heap, std::uint64_t count, layout how,
                                             advice_code advice = 0) {
    static_assert(fits_tiles<T>, "sizeof(T) must be a power of two, at most 64 KiB: pad it, with alignas");
    const heap_view& h = heap.view();
    if (count == 0) {
        return {};
    }
    const std::uint64_t bytes = count * sizeof(T);
    if (bytes / sizeof(T) != count) {
        slow::record_failure(*h.self, failure_reason::too_large, ~std::uint64_t{0}, chunk_class);
        return {};
    }
    // `h.arrays` is the heap's option. If that is `automatic` too, `place_array` chooses by the size of the group.
    const layout wanted = how.which == layout::choice::automatic ? h.arrays : how;
    if (wanted.which != layout::choice::linear) {
        lane_place at;
        slow::place_array(*h.self, bytes, {wanted, advice, sizeof(T), alignof(T)}, at);
        if (!at.linear) {
            return at.chunk != nullptr ? lane_array<T>(at.chunk, at.map, at.position, count, at.shift)
                                       : lane_array<T>();
        }
    }
    // Linear: `malloc` aligns to 16 B, which is enough for most types.
    void* const p = advice != 0 && bytes > largest_page_bytes && h.instrumented == 0
                        ? slow::allocate_large_advised(*h.self, bytes, alignof(T), advice)
                    : alignof(T) <= lane_alignment ? heap.malloc(bytes)
                                                   : heap.aligned_alloc(alignof(T), bytes);
    return p != nullptr ? lane_array<T>::linear(static_cast<T*>(p), count) : lane_array<T>();
}

/// Frees an array of `heap`; implements `heap_ref::free_array` for every type with that interface. Any lanes call it;
/// each frees its own array.
template <class T, class Heap>
ORCHARD_FN void free_array_of(const Heap& heap, const lane_array<T>& a) {
    if (a.empty()) {
        return;
    }
    // The map of an interleaved array never equals that of a linear array (`choose_width`).
    if (a.map() == lane_map::linear()) {
        return heap.free(a.chunk());
    }
    // The record of lanes of different lengths names the place of the table before the rows.
    const std::uint64_t table = a.map().ragged != 0 ? os_page_bytes : 0;
    slow::free_array_of_lane(*heap.view().self, static_cast<const char*>(a.chunk()) - table, a.map().width,
                             a.position());
}

}  // namespace device

template <class T>
ORCHARD_FN lane_array<T> heap_ref::allocate_array(std::uint64_t count, layout how) const {
    return device::allocate_array_from<T>(*this, count, how);
}

template <class T>
ORCHARD_FN lane_array<T> heap_ref::allocate_array(std::uint64_t count, layout how, managed_advice what) const {
    return device::allocate_array_from<T>(*this, count, how, view_.code_of(what));
}

template <class T>
ORCHARD_FN void heap_ref::free_array(const lane_array<T>& a) const {
    device::free_array_of(*this, a);
}

}  // namespace orchard
