// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Blocks that the host frees, on their way to the device: a ring in device memory that the host writes by copies and
/// device threads read. So neither waits for the other, and nobody polls memory of the host.
///
///     taken                      posted
///       v                          v
///     | o | o | o | o | o | o | o |   |   |      o: offset of a block from the heap's first byte
///
/// The host writes offsets, then `posted`; it writes a place again only once `taken` has passed it. A thread reads the
/// place of `taken`, then makes it its own with a compare-and-swap: where the place was written again meanwhile, that
/// fails.

#include "device/simt/atomic.cuh"
#include "device/simt/mutation.cuh"

namespace orchard::device {

struct host_free_ring {
    static constexpr std::uint32_t capacity = 4096;

    alignas(128) simt::device_word<std::uint64_t> posted;  ///< so far, ever; written by the host
    alignas(128) simt::device_word<std::uint64_t> taken;   ///< so far, ever
    alignas(128) simt::device_word<std::uint64_t> freed;   ///< of those taken, how many have been freed
    alignas(128) simt::device_word<std::uint64_t> offset[capacity];

    /// Whether there is something to take; a snapshot. Any lane, alone.
    [[nodiscard]] ORCHARD_INLINE bool is_waiting() const {
        return posted.load<simt::order::relaxed>() != taken.load<simt::order::relaxed>();
    }

    /// The offset of the next block; false where there is none. Any lane, alone.
    inline ORCHARD_NOINLINE bool take(std::uint64_t* block) {
        if (!is_waiting()) {
            return false;  // mostly, after one wait for both words
        }
        // Acquires what the host wrote to the block and to its place in the ring.
        const std::uint64_t end = posted.load<simt::order::acquire>();
        std::uint64_t at = taken.load<simt::order::relaxed>();
        // Others may have taken what was posted after this thread looked: behind `end` nothing is acquired.
        while (simt::mutation::is(simt::mutation::fault::ring_end) ? at != end : at < end) {
            *block = offset[at % capacity].load<simt::order::relaxed>();
            // Released to the host, which writes the place again: it has been read.
            if (taken.compare_exchange<simt::order::release>(at, at + 1)) {
                return true;
            }
        }
        return false;
    }
};

}  // namespace orchard::device
