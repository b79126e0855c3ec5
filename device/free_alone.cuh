// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Frees a block that the host has freed, by a single lane.
///
///     apply_host_free             free_page, else free_other

#include "device/free_other.cuh"
#include "device/reclaim/host_frees.cuh"

namespace orchard::device {

/// Frees the memory of a block of this heap as a group of one lane. A block that is free already is an invalid free.
/// One lane calls it alone.
ORCHARD_INLINE void free_memory(const heap_view& h, const void* p) {
    // Relaxed: the descriptor does not change while the block is in use, and the caller has acquired what the thread
    // that allocated or freed it wrote.
    const std::uint64_t d = h.descriptor(h.segment_of(p)).load<order::relaxed>();
    if (!free_page(h, lane_mask{1} << simt::lane_id(), p, d)) {
        free_other(h, p);
    }
}

/// See reclaim/host_frees.cuh. The block is freed as a group of one lane frees it. A block that the host has freed
/// twice is an invalid free here, as for a device thread.
inline ORCHARD_NOINLINE bool apply_host_free(const heap_view& h) {
    std::uint64_t offset = 0;
    if (!h.host_frees->take(&offset)) {
        return false;
    }
    // In a hardened heap too: a check here would cost each kernel that calls `malloc` eight registers.
    free_memory(h, h.base + offset);
    // Counted after the free, and by a release: a lane that acquires the count (`free_for_host`) finds the page free.
    h.host_frees->freed.fetch_add<order::release>(1);
    return true;
}

}  // namespace orchard::device
