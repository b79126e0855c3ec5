// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `xmalloc_ref`: XMalloc, which makes another allocator faster by two layers in front of it.
///
///     malloc(bytes)
///       large, or one lane alone ? ask alone                       one block for the lane
///                           else   ask together                    one block for all lanes of the warp: an area
///                                    -> block_buffers::malloc      a queue of free blocks, else the base allocator
///
///     area          | area header | c. header | block of a lane | c. header | block of another lane |
///     a block alone | area header | block |
///
/// A block and its header (16 B) are a compartment. The header tells a free how far before it the area begins. The area
/// counts its compartments; the free of the last one frees the area.
///
/// Source: X. Huang et al., *Scalable SIMD-parallel memory allocation for many-core machines*, 2011 (section 5, figure
/// 4). Faults in print, and their repairs: docs/xmalloc.md.

#include <cstdint>

#include "device/group/lane_sums.cuh"
#include "device/group/leader.cuh"
#include "device/published/device_allocator.cuh"
#include "device/published/xmalloc/block_buffers.cuh"
#include "device/simt/mutation.cuh"

namespace orchard {

/// The view of an `xmalloc` in kernels. Trivially copyable; pass it by value. It is valid while the owner lives.
///
/// @tparam Base       the allocator that blocks come from, a `device_allocator`: `heap_ref`, `system_malloc_ref`, ...
/// @tparam Coalesces  false: each lane asks alone
template <class Base, bool Coalesces = true>
class xmalloc_ref {
    static_assert(device::device_allocator<Base>);

public:
    xmalloc_ref() = default;
    /// @param most_coalesced  a request of more bytes is served alone, so that its memory is free as soon as it is
    xmalloc_ref(const device::block_buffers<Base>& buffers, std::uint32_t most_coalesced)
        : buffers_{buffers}, most_coalesced_{most_coalesced} {}

    /// Returns memory of at least `bytes`, aligned to 16 B, which no other block overlaps; null for 0 bytes, for more
    /// than the base serves, and if memory lacks. Any thread, in any divergence: lanes that call at the same time share
    /// an area. If there is no memory for an area, each lane asks alone. It waits only where the base does. Cost: a
    /// ballot for each bit of the sizes, and `block_buffers::malloc` for all lanes; alone, the latter for each lane.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        if (bytes == 0 || bytes > most_bytes) {
            return nullptr;
        }
        if constexpr (Coalesces) {
            if (bytes <= most_coalesced_) {
                void* const p = malloc_together(static_cast<std::uint32_t>(bytes));
                if (p != nullptr) {
                    return p;
                }
            }
        }
        return malloc_alone(bytes);
    }

    /// Frees what `malloc` returned; does nothing for null. Any thread of any kernel. It never waits, unless the base
    /// does. Cost: an atomic on the area; for its last block also `block_buffers::free`.
    ORCHARD_FN void free(void* p) const {
        if (p == nullptr) {
            return;
        }
        header* area = static_cast<header*>(p) - 1;
        std::uint64_t what = area->what.get();
        if (what >> 32 == compartment_tag) {
            area -= static_cast<std::uint32_t>(what);
            // Release: the caller's use of its block. Acquire: the use of all other blocks, before the area is free.
            simt::mutation::weaken_next(simt::mutation::fault::area_count);
            if (area->count.template fetch_sub<simt::order::acq_rel>(1) != 1) {
                return;
            }
            what = area->what.get();
        }
        buffers_.free(area, static_cast<std::uint32_t>(what));
    }

    /// Returns the queues, for the owner's kernels.
    [[nodiscard]] ORCHARD_INLINE const device::block_buffers<Base>& buffers() const { return buffers_; }

private:
    static constexpr std::uint64_t area_tag = 0xa9ea0001;
    static constexpr std::uint64_t compartment_tag = 0xc09a0002;
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 47;  ///< so that no sum wraps

    /// Before each block, and before each area. The thread that frees a block reads what the one wrote that allocated
    /// it; a program orders the two.
    struct alignas(16) header {
        simt::plain<std::uint64_t> what;         ///< tag << 32 | value: `area_tag` and the size class, or
                                                 ///< `compartment_tag` and the number of headers from the area to here
        simt::device_word<std::uint64_t> count;  ///< area of several blocks: those that are not free
    };
    static ORCHARD_INLINE std::uint64_t pack(std::uint64_t tag, std::uint32_t value) { return tag << 32 | value; }
    static constexpr std::uint32_t header_bytes = 16;
    static_assert(sizeof(header) == header_bytes);

    /// Returns a block of an area for the lanes that call together; null to all of them if there is no memory for it,
    /// and to a lane that calls alone.
    ORCHARD_FN void* malloc_together(std::uint32_t bytes) const {
        const simt::lane_mask group = simt::match(simt::converge(), buffers_.id());
        if ((group & (group - 1)) == 0) {
            return nullptr;
        }
        const std::uint32_t headers = (bytes + header_bytes - 1) / header_bytes + 1;
        const device::lane_sum sum = device::sum_lanes(group, headers);
        std::uint64_t address = 0;
        if (device::is_leader(group)) {
            std::uint32_t size_class = 0;
            auto* const area = static_cast<header*>(buffers_.malloc((sum.all + 1) * header_bytes, &size_class));
            if (area != nullptr) {
                area->what.set(pack(area_tag, size_class));
                // Relaxed: `sync` orders it before the lanes' frees, and before those of threads that they order.
                area->count.template store<simt::order::relaxed>(static_cast<std::uint64_t>(simt::popcount(group)));
            }
            address = reinterpret_cast<std::uint64_t>(area);
        }
        address = device::from_leader(group, address);
        simt::sync(group);
        if (address == 0) {
            return nullptr;
        }
        const auto offset = static_cast<std::uint32_t>(1 + sum.before);
        header* const compartment = reinterpret_cast<header*>(address) + offset;
        compartment->what.set(pack(compartment_tag, offset));
        return compartment + 1;
    }

    /// Returns a block for one lane, or null.
    ORCHARD_FN void* malloc_alone(std::uint64_t bytes) const {
        std::uint32_t size_class = 0;
        auto* const area = static_cast<header*>(buffers_.malloc(bytes + header_bytes, &size_class));
        if (area == nullptr) {
            return nullptr;
        }
        area->what.set(pack(area_tag, size_class));
        return area + 1;
    }

    device::block_buffers<Base> buffers_;
    std::uint32_t most_coalesced_ = 0;
};

}  // namespace orchard
