// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/heap_ref.cuh"
#include "device/slow_paths.cuh"

namespace orchard {

template <class Policy>
template <class T>
ORCHARD_FN lane_array<T> basic_heap_ref<Policy>::allocate_array(std::uint64_t count, layout how) const {
    static_assert(device::fits_tiles<T>, "sizeof(T) must be a power of two, at most 64 KiB: pad it, with alignas");
    if (count == 0) {
        return {};
    }
    const std::uint64_t bytes = count * sizeof(T);
    if (bytes / sizeof(T) != count) {
        device::slow::record_failure(*view_.self, failure_reason::too_large, ~std::uint64_t{0}, chunk_class);
        return {};
    }
    const layout wanted = how.which == layout::choice::automatic ? view_.arrays : how;
    if (wanted.which != layout::choice::linear) {
        device::lane_place at;
        device::slow::place_array(*view_.self, bytes, {wanted, sizeof(T), alignof(T)}, at);
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
    device::slow::free_array_of_lane(*view_.self, a.chunk(), a.map().width, a.position());
}

}  // namespace orchard
