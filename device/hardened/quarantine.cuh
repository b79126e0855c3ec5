// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "device/state/heap_state.cuh"

namespace orchard::device {

/// The blocks of a hardened heap that were freed and wait before their memory is used again (guarded_free.cuh).
struct quarantine {
    static constexpr std::uint32_t max_slots = 4096;
    static constexpr std::uint64_t max_block_bytes = 64 << 10;  ///< larger blocks do not wait

    padded_atomic faults;                         ///< number of faults found so far
    padded_atomic turn;                           ///< number of blocks put in so far
    device_word<std::uint64_t> slots[max_slots];  ///< 0: none

    /// A slot: the offset of a block and its bytes, both in units of 16 B. Of a block that is too large to wait, the
    /// bytes are not kept. The highest bit is set, as the rest of such a block may be 0.
    ///
    ///     63  62                       16 15                    0
    ///     | 1 |  offset from `base` / 16 |  bytes / 16           |
    static constexpr std::uint64_t holds_block = std::uint64_t{1} << 63;
    static ORCHARD_INLINE constexpr std::uint64_t slot_of(std::uint64_t offset, std::uint64_t bytes) {
        return holds_block | offset / 16 << 16 | (bytes / 16 & 0xffff);
    }
    static_assert(max_block_bytes / 16 <= 0xffff, "the bytes of a block that waits have 16 bits");
    static ORCHARD_INLINE constexpr std::uint64_t offset_of(std::uint64_t slot) {
        return ((slot & ~holds_block) >> 16) * 16;
    }
    static ORCHARD_INLINE constexpr std::uint64_t bytes_of(std::uint64_t slot) { return (slot & 0xffff) * 16; }

    /// Returns the number of slots in use by a heap of this many segments. Full of the largest blocks, they hold a 64th
    /// of it.
    static constexpr std::uint32_t slots_for(std::uint32_t segments) {
        const std::uint64_t n = (std::uint64_t{segments} << segment_shift) / 64 / max_block_bytes;
        return static_cast<std::uint32_t>(n < max_slots ? n : max_slots);
    }
};

}  // namespace orchard::device
