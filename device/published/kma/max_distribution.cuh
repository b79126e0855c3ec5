// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Max distribution: lanes that ask together for arrays get one block, in which element j of all lanes lies side by
/// side. Each lane's part is as long as the longest one.
///
///     lanes ask for 3, 1 and 2 elements       | 0.0 1.0 2.0 | 0.1  -  2.1 | 0.2  -   -  |     -: not used
///
/// Lanes that go through their arrays together access neighbouring elements, unlike with arrays one after another, and
/// no table is needed. Source: R. Spliet, 2013, section 5.3.2 (figures 5.6 and 5.7).

#include <cstdint>

#include "device/group/leader.cuh"
#include "device/published/device_allocator.cuh"
#include "device/simt/atomic.cuh"

namespace orchard::device {

/// A lane's elements of a block of several lanes. Trivially copyable.
template <class T>
struct max_distributed_array {
    T* first = nullptr;        ///< null: the lane has none
    std::uint32_t stride = 0;  ///< elements from one of this lane's to the next: the number of lanes
    std::uint32_t count = 0;   ///< as the lane asked for
    void* block = nullptr;     ///< what `free_max_distributed` needs

    ORCHARD_INLINE T& operator[](std::uint32_t j) const { return first[std::uint64_t{j} * stride]; }
};

/// The bytes before the elements: a word that counts the lanes whose elements are not free, and rest.
inline constexpr std::uint64_t max_distributed_header = 16;

/// Returns an array of `count` elements for each lane of the group that calls together, in any divergence; empty for 0
/// elements, and for all lanes of the group if `from` has no block of that size. Elements are not initialised. Lanes
/// that call together pass the same allocator. Cost: one `malloc` of the lanes' number times the greatest count, and a
/// reduction.
template <class T, class Allocator>
ORCHARD_FN max_distributed_array<T> allocate_max_distributed(const Allocator& from, std::uint32_t count) {
    static_assert(alignof(T) <= 16, "blocks are aligned to 16 B");
    static_assert(device_allocator<Allocator>);
    if (count == 0) {
        return {};
    }
    const simt::lane_mask group = simt::converge();
    const auto lanes = static_cast<std::uint32_t>(simt::popcount(group));
    const std::uint64_t most = simt::reduce_max(group, count);
    std::uint64_t address = 0;
    if (is_leader(group)) {
        void* const block = from.malloc(max_distributed_header + most * lanes * sizeof(T));
        if (block != nullptr) {
            // Relaxed: `sync` orders it before the lanes' frees.
            static_cast<simt::device_word<std::uint32_t>*>(block)->template store<simt::order::relaxed>(lanes);
        }
        address = reinterpret_cast<std::uint64_t>(block);
    }
    address = from_leader(group, address);
    simt::sync(group);
    if (address == 0) {
        return {};
    }
    T* const elements = reinterpret_cast<T*>(address + max_distributed_header);
    return {elements + simt::rank_in(group), lanes, count, reinterpret_cast<void*>(address)};
}

/// Frees a lane's array; does nothing for an empty one. The last lane's free frees the block. Any thread of any kernel.
template <class T, class Allocator>
ORCHARD_FN void free_max_distributed(const Allocator& from, const max_distributed_array<T>& array) {
    if (array.block == nullptr) {
        return;
    }
    auto* const live = static_cast<simt::device_word<std::uint32_t>*>(array.block);
    // Release: the caller's use of its elements. Acquire: that of all lanes, before the block is free.
    if (live->template fetch_sub<simt::order::acq_rel>(1) == 1) {
        from.free(array.block);
    }
}

}  // namespace orchard::device
