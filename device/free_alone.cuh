// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Frees by a single lane: of pointers that are no page, and of blocks that the host has freed.
///
///     heap_ref::free --no page--> free_other --> free_from_chunk     a block of a chunk
///                                            --> record_invalid_free anything else
///     apply_host_free             free_page, else free_other

#include "device/host_rpc/host_frees.cuh"
#include "device/large/chunk_free.cuh"
#include "device/small/free_page.cuh"

namespace orchard::device {

/// Counts an invalid free, and notes the first such address. A hardened heap ends the kernel. One lane calls it alone.
/// Cost: two atomics, one of them without a used result.
inline ORCHARD_NOINLINE void record_invalid_free(const heap_view& h, const void* p) {
    h.add(counter::invalid_frees, 1);
    std::uint64_t expected = 0;
    h.state->failure.first_invalid_free.compare_exchange<order::relaxed>(expected, reinterpret_cast<std::uintptr_t>(p));
    if (h.hardened) {
        simt::stop_kernel("orchard: free of what was not allocated, in a hardened heap");
    }
}

/// Frees `p`, which is no page in use: a block of a chunk, or else an invalid free. One lane calls it alone. Any
/// address may be passed, also one outside the heap. Cost: see `find_block` (large/chunk_free.cuh), one atomic.
inline ORCHARD_NOINLINE void free_other(const heap_view& h, const void* p) {
    block_search s(h, p);
    if (free_from_chunk(s)) {
        s.h.add(counter::frees, 1);
    } else {
        record_invalid_free(s.h, s.address());
    }
}

/// See host_rpc/host_frees.cuh. The block is freed as a group of one lane frees it. A block that the host has freed
/// twice is an invalid free here, as for a device thread.
inline ORCHARD_NOINLINE bool apply_host_free(const heap_view& h) {
    std::uint64_t offset = 0;
    if (!h.host_frees->take(&offset)) {
        return false;
    }
    const void* p = h.base + offset;
    // Relaxed: `take` has acquired what the host wrote before it posted the block, and the descriptor does not change
    // while the block is in use.
    const std::uint64_t d = h.descriptors[offset >> segment_shift].load<order::relaxed>();
    if (!free_page(h, lane_mask{1} << simt::lane_id(), p, d)) {
        free_other(h, p);
    }
    // Counted after the free, and by a release: a lane that acquires the count (`free_for_host`) finds the page free.
    h.host_frees->freed.fetch_add<order::release>(1);
    return true;
}

}  // namespace orchard::device
