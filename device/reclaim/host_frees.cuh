// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Processing of blocks that the host has freed (`host_free_ring`) by device threads: occasionally when they ask for
/// memory, and always before a request fails for lack of memory. These calls are made at the top of the call chain,
/// because a function called from a deeper one would add its registers to those of the whole chain.

#include "device/state/heap_state.cuh"

namespace orchard::device {

/// Frees the next block that the host has freed; returns false if there is none. One lane calls it alone. The heap's
/// policy must be the default. Defined in device/free_alone.cuh, which includes everything that frees. Cost: two loads
/// if there is none; otherwise that of `take` and of a free by one lane.
ORCHARD_FN bool apply_host_free(const heap_view& h);

/// Frees the blocks that the host has freed until the ring is empty, and waits up to `reclaim_patience_ns` for other
/// lanes that are freeing some. Sets `*seen` to the number of blocks freed so far, and returns whether that number has
/// changed: a failed request should then be tried again. One lane calls it alone; several lanes share the work.
inline ORCHARD_NOINLINE bool free_for_host(const heap_view& h, std::uint64_t* seen) {
    host_free_ring& ring = *h.host_frees;
    ORCHARD_NO_UNROLL
    while (apply_host_free(h)) {
    }
    // Another lane may have taken a block and not freed it yet. Its page is missing to this request, which must not
    // fail for that reason; hence the wait. `freed` is acquired, so that the caller sees the pages freed before (pairs
    // with the release in `apply_host_free`).
    const std::uint64_t taken = ring.taken.load<simt::order::relaxed>();
    std::uint64_t freed = ring.freed.load<simt::order::acquire>();
    const std::uint64_t began = simt::clock_ns();
    ORCHARD_NO_UNROLL
    while (freed < taken && simt::clock_ns() - began < h.reclaim_patience_ns) {
        simt::pause(1000);
        freed = ring.freed.load<simt::order::acquire>();
    }
    const bool more = freed != *seen;
    *seen = freed;
    return more;
}

}  // namespace orchard::device
