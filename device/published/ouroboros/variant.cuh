// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Ouroboros, a memory manager of queues that lie in the memory that they manage: "Ouroboros: Virtualized Queues for
/// Dynamic Memory Management on GPUs" (Winter, Mlakar, Parger, Steinberger, ICS 2020; below: the paper). The text of
/// the paper alone is the source. docs/ouroboros.md lists its faults in print and how they are repaired here.
///
///     ouroboros_ref.cuh      malloc and free of the whole manager
///       page_heap.cuh        pages in queues (section 4.1)        chunk_heap.cuh   chunks in queues (section 4.2)
///         static_ring.cuh, array_hierarchy.cuh, linked_chunks.cuh   the three kinds of queues
///           chunk_pool.cuh   chunks, which are pages, or queues, or free
///       bulk_semaphore.cuh, index_queue.cuh
///
/// Waiting: some functions wait until another lane has written a word. Such a lane has already begun the write, and
/// never waits for a lane that began later, so that each wait ends if all lanes run from time to time. Both devices
/// guarantee that, also for lanes of one warp, if the wait calls `simt::pause`.

#include <cstdint>

#include "device/simt/config.cuh"

namespace orchard::device::ouroboros {

/// The six variants of the paper: the kind of the queues (S: arrays; VA: arrays of pointers to chunks; VL: linked
/// chunks), and what the queues hold.
enum class variant : std::uint32_t { s_pages, s_chunks, va_pages, va_chunks, vl_pages, vl_chunks };

/// The kinds of queues.
enum class queue_kind : std::uint32_t { static_ring, array_hierarchy, linked_chunks };

[[nodiscard]] ORCHARD_INLINE constexpr queue_kind kind_of(variant v) {
    return static_cast<queue_kind>(static_cast<std::uint32_t>(v) / 2);
}
/// Returns whether the queues hold chunks, not pages.
[[nodiscard]] ORCHARD_INLINE constexpr bool holds_chunks(variant v) { return static_cast<std::uint32_t>(v) % 2 == 1; }

/// Returns the name of a variant, as docs/ouroboros.md has it. For the host.
[[nodiscard]] constexpr const char* name_of(variant v) {
    constexpr const char* names[] = {"s_pages", "s_chunks", "va_pages", "va_chunks", "vl_pages", "vl_chunks"};
    return names[static_cast<std::uint32_t>(v)];
}

}  // namespace orchard::device::ouroboros
