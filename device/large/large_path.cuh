// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Large requests: the lanes of a group share a chunk, or ask for less together.

#include "device/failures.cuh"
#include "device/free_alone.cuh"
#include "device/large/chunk_path.cuh"

namespace orchard::device {

/// Records a lane's request for a chunk that was not answered with one.
inline ORCHARD_NOINLINE void count_large_failure(const chunk_request& r) {
    if (r.block == nullptr) {
        record_failure(r.h, r.why, r.bytes, chunk_class);
    }
}

/// Counts a group that asks for a chunk.
inline ORCHARD_NOINLINE void count_large_group(const chunk_request& r) {
    if (is_leader(r.mask)) {
        r.h.add(counter::groups, 1);
        if (r.mask != lane_mask{1} << simt::lane_id()) {
            r.h.add(counter::multi_lane_groups, 1);
        }
    }
}

/// Of lanes that could share a chunk of this heap, those that share this lane's. All lanes of `group`.
inline ORCHARD_NOINLINE lane_mask sharing_lanes(const heap_view& h, lane_mask group) {
    return 1 << h.log_chunk_lanes == simt::warp_size
               ? group
               : simt::match(group, static_cast<std::uint32_t>(simt::rank_in(group)) >> h.log_chunk_lanes);
}

/// Brings those together that ask this heap for a chunk and stand here, and may share one. Any lanes.
inline ORCHARD_NOINLINE void form_group(chunk_request& r) {
    const lane_mask here = simt::converge();
    // Lanes of several heaps may stand here together.
    r.mask = sharing_lanes(r.h, simt::match(here, reinterpret_cast<std::uintptr_t>(r.h.state)));
}

/// Whether a lane that got nothing should ask again: something was freed meanwhile that the host had freed.
inline ORCHARD_NOINLINE bool may_ask_again(chunk_request& r) {
    r.reclaim = 0;  // that it was refused then says nothing any more
    return r.block == nullptr && is_shortage(r.why) && r.h.host_frees->posted.load<simt::order::relaxed>() != 0 &&
           free_for_host(r.h, &r.host_frees_seen);
}

/// Now and then frees what the host has freed, so that it does not wait for a shortage. Any lane, alone.
inline ORCHARD_NOINLINE void free_for_host_at_times(const chunk_request& r) {
    constexpr std::uint32_t one_in = 16;
    // A lane that got nothing may have a view that refuses everything, and has no ring.
    if (r.block != nullptr &&
        mix(static_cast<std::uint32_t>((static_cast<char*>(r.block) - r.h.base) >> 16)) % one_in == 0) {
        (void)apply_host_free(r.h);
    }
}

/// A block of a chunk for each lane that asks this heap for one, or null. Any lanes; those that come together share.
inline ORCHARD_NOINLINE void* allocate_large(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment) {
    chunk_request r{h, 0, bytes, alignment};
    ORCHARD_NO_UNROLL
    do {
        form_group(r);
        count_large_group(r);
        allocate_chunk(r);
    } while (may_ask_again(r));
    count_large_failure(r);
    free_for_host_at_times(r);
    return r.block;
}

}  // namespace orchard::device
