// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The ring of blocks that the host has freed. It lies in device memory; the host writes it by copies, and device
/// threads read it. Neither side waits for the other, and no thread polls host memory.
///
///     taken                      posted
///       v                          v
///     | o | o | o | o | o | o | o |   |   |      o: offset of a block from the heap's first byte
///
/// Block number n, counted from 0, lies at entry n mod 4096: block 5,000 at entry 904.
///
/// The host writes offsets, then `posted`. It reuses an entry only after `taken` has passed it. A thread reads the
/// entry at `taken`, and then takes it by a compare-and-swap on `taken`. If the host has reused the entry meanwhile,
/// `taken` has moved, so that the compare-and-swap fails.

#include "device/simt/atomic.cuh"
#include "device/simt/mutation.cuh"

namespace orchard::device {

struct host_free_ring {
    static constexpr std::uint32_t capacity = 4096;

    alignas(128) simt::device_word<std::uint64_t> posted;  ///< blocks posted so far, in total; written by the host
    alignas(128) simt::device_word<std::uint64_t> taken;   ///< blocks taken so far, in total
    alignas(128) simt::device_word<std::uint64_t> freed;   ///< those of the blocks taken that have been freed
    alignas(128) simt::device_word<std::uint64_t> offset[capacity];

    /// Returns whether there is a block to take; a snapshot. One lane calls it alone.
    [[nodiscard]] ORCHARD_INLINE bool is_waiting() const {
        return posted.load<simt::order::relaxed>() != taken.load<simt::order::relaxed>();
    }

    /// Takes the next block: sets `*block` to its offset. Returns false if there is none. One lane calls it alone;
    /// several lanes may call it at the same time, and never get the same block. Cost: two loads if the ring is empty;
    /// otherwise two more, and a load and an atomic for each attempt.
    inline ORCHARD_NOINLINE bool take(std::uint64_t* block) {
        if (!is_waiting()) {
            return false;  // the usual case; both loads are in flight together
        }
        // Acquire: pairs with the host's copy of `posted`, which follows its copy of the entries
        // (`host_free_queue::write_some`). This lane then sees the entry, and the host's writes to the block.
        const std::uint64_t end = posted.load<simt::order::acquire>();
        std::uint64_t at = taken.load<simt::order::relaxed>();
        // Other threads may have taken entries beyond `end`, which this thread has not acquired; hence `<`.
        while (simt::mutation::is(simt::mutation::fault::ring_end) ? at != end : at < end) {
            // This may read an entry that the host is reusing, if `at` is out of date. The compare-and-swap then fails,
            // since `taken` only grows.
            *block = offset[at % capacity].load<simt::order::relaxed>();
            // Releases the read of the entry to the host, which may now reuse it.
            if (taken.compare_exchange<simt::order::release>(at, at + 1)) {
                return true;
            }
        }
        return false;
    }
};

}  // namespace orchard::device
