// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `bump_ref`: memory from one counter, a baseline. `malloc` costs one atomic a warp, `free` does nothing, and all
/// memory comes back at once by `reset`.
///
///     memory     | given out ............ | room        |
///                                         top           capacity
///     a group    lanes ask for 2, 1 and 4 units of 16 B: top grows by 7, and the lanes get top, top + 2, top + 3
///
/// Source: the "poormans heap" of R. Spliet, *A comprehensive study of Dynamic Memory Management in OpenCL kernels*
/// (2013), section 5.2, which takes its memory thread by thread. Differences: docs/kma.md.

#include <cstdint>

#include "device/group/lane_sums.cuh"
#include "device/group/leader.cuh"
#include "device/published/device_allocator.cuh"
#include "device/simt/atomic.cuh"

namespace orchard {

/// The view of a `bump` in kernels. Trivially copyable; pass it by value. It is valid while the owner lives.
class bump_ref {
public:
    using word = simt::device_word<std::uint64_t>;

    static constexpr std::uint64_t unit = 16;  ///< bytes; blocks are multiples of it, and aligned to it

    bump_ref() = default;
    /// @param base   aligned to 16 B
    /// @param units  the memory behind `base`, in units
    /// @param top    units given out, in device memory; it may exceed `units`
    bump_ref(char* base, std::uint64_t units, word* top) : base_{base}, units_{units}, top_{top} {}

    /// Returns memory of at least `bytes`, aligned to 16 B; null for 0 bytes, and if fewer bytes are left. Any thread,
    /// in any divergence. A request of 64 GiB or more is null. It never waits.
    ///
    /// A lane is served with all lanes that call together, as long as they fit; lanes that do not fit beside the others
    /// try again without them. If other warps take the room meanwhile, what is left of it is lost until `reset`. Cost:
    /// a load and an atomic for all lanes of a warp, and a ballot for each bit of the sizes.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        if (bytes == 0 || bytes > most_bytes) {
            return nullptr;
        }
        const auto units = static_cast<std::uint32_t>((bytes + unit - 1) / unit);
        simt::lane_mask group = simt::match(simt::converge(), reinterpret_cast<std::uintptr_t>(top_));
        // Each round serves the lowest lane, or sends it away.
        for (;;) {
            std::uint64_t top = 0;
            if (device::is_leader(group)) {
                // Relaxed, as all accesses of the counter: units are given out once, so that nothing happened in them.
                top = top_->load<simt::order::relaxed>();
            }
            top = device::from_leader(group, top);
            // Without this test, requests that fail would move the counter until it wraps.
            const std::uint64_t room = top < units_ ? units_ - top : 0;
            const bool is_possible = units <= room;
            group = simt::ballot(group, is_possible);
            if (!is_possible) {
                return nullptr;
            }
            const device::lane_sum sum = device::sum_lanes(group, units);
            const std::uint64_t end = sum.before + units;
            const bool is_served = end <= room;
            // The ends increase, so that these are the lowest lanes of the group, with its leader.
            const simt::lane_mask served = simt::ballot(group, is_served);
            const std::uint64_t all = simt::shuffle(group, end, simt::highest_bit(served));
            std::uint64_t first = 0;
            if (device::is_leader(group)) {
                first = top_->fetch_add<simt::order::relaxed>(all);
            }
            first = device::from_leader(group, first);
            if (is_served) {
                return first + end <= units_ ? base_ + (first + sum.before) * unit : nullptr;
            }
            group &= ~served;
        }
    }
    /// Does nothing.
    ORCHARD_INLINE void free(void*) const {}

    /// Takes all memory back. One thread calls it, while no other one uses the allocator or its blocks.
    ORCHARD_INLINE void reset() const { top_->store<simt::order::relaxed>(0); }

private:
    static constexpr std::uint64_t most_bytes = std::uint64_t{0xffffffff} * unit;  ///< `sum_lanes` takes 32 bits

    char* base_ = nullptr;
    std::uint64_t units_ = 0;
    word* top_ = nullptr;
};

static_assert(device::device_allocator<bump_ref>);

}  // namespace orchard
