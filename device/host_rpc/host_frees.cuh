// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Where device threads free what the host has freed (`host_free_ring`): where they ask for memory, now and then, and
/// always before they are refused for want of it. Not deeper than that: what is called from a function that calls
/// others takes registers on top of all of theirs.

#include "device/heap_state.cuh"

namespace orchard::device {

/// Frees the next block that the host has freed; false where there is none. Any lane, alone. The heap's policy is the
/// default. Defined in device/free_alone.cuh, which stands on all that frees.
ORCHARD_FN bool apply_host_free(const heap_view& h);

/// Frees what the host has freed, until there is nothing, and waits for others that are about to free some; but not for
/// one that takes too long. Returns true if more than `*seen` blocks are freed by now, so that a group that was refused
/// should ask again; `*seen` is set to their number. Any lane, alone; several share.
inline ORCHARD_NOINLINE bool free_for_host(const heap_view& h, std::uint64_t* seen) {
    host_free_ring& ring = *h.host_frees;
    ORCHARD_NO_UNROLL
    while (apply_host_free(h)) {
    }
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
