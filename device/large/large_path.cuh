// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Large requests: the lanes of a group share one warp chunk or, if that fails, its halves try alone.
///
///     allocate_large, allocate_large_advised
///       form_group            the lanes that are here together, at most 2^`log_chunk_lanes` of them
///       allocate_chunk        chunk_path.cuh; each lane's block, or a reason
///       may_ask_again         the host has freed blocks meanwhile: once more from `form_group`

#include "device/hardened/guarded_block.cuh"
#include "device/large/chunk_free.cuh"
#include "device/large/chunk_path.cuh"
#include "device/reclaim/host_frees.cuh"
#include "device/state/failures.cuh"

namespace orchard::device {

/// Records the failure of a lane that got no block. Each lane calls it for itself: after splits, some lanes of a group
/// have blocks and others do not.
inline ORCHARD_NOINLINE void count_large_failure(const chunk_request& r) {
    record_failure(r.h, r.why, r.bytes, chunk_class);
}

/// Counts a group that asks for a chunk. All lanes of the group call it.
inline ORCHARD_NOINLINE void count_large_group(const chunk_request& r) {
    if (is_leader(r.mask)) {
        r.h.add(counter::groups, 1);
        if (r.mask != lane_mask{1} << simt::lane_id()) {
            r.h.add(counter::multi_lane_groups, 1);
        }
    }
}

/// Returns those lanes of `group` that share a chunk with this lane: 2^`log_chunk_lanes` lanes of consecutive rank, or
/// fewer at the end. All lanes of `group` call it. Of 20 lanes with `log_chunk_lanes` = 3, ranks 0 to 7, 8 to 15, and
/// 16 to 19 share.
ORCHARD_INLINE lane_mask sharing_lanes(const heap_view& h, lane_mask group) {
    return 1 << h.log_chunk_lanes == simt::warp_size
               ? group
               : simt::match(group, static_cast<std::uint32_t>(simt::rank_in(group)) >> h.log_chunk_lanes);
}

/// Sets the group of this lane: the converged lanes that ask this heap for a chunk and may share one. Any lanes call
/// it, converged or not; lanes that are not converged form groups of their own.
inline ORCHARD_NOINLINE void form_group(chunk_request& r) {
    const lane_mask here = simt::converge();
    // Converged lanes may ask different heaps.
    r.mask = sharing_lanes(r.h, simt::match(here, reinterpret_cast<std::uintptr_t>(r.h.state)));
}

/// Returns whether a lane whose request failed should try again: blocks that the host freed have been processed
/// meanwhile. Each such lane calls it for itself, so that lanes of one group may decide differently. The loop over it
/// ends, because `host_frees_seen` lets a lane try again only if more blocks have been freed since its last attempt.
inline ORCHARD_NOINLINE bool may_ask_again(chunk_request& r) {
    r.reclaim = 0;  // that reclaim began before these frees
    r.reclaims = 0;
    return is_shortage(r.why) && r.h.host_frees->posted.load<simt::order::relaxed>() != 0 &&
           free_for_host(r.h, &r.host_frees_seen);
}

/// Occasionally frees a block that the host has freed, so that such blocks do not wait for a shortage. The leader of a
/// group that got blocks calls it alone. Chance chooses one call in 16, without a counter that groups would share.
inline ORCHARD_NOINLINE void free_for_host_at_times(const chunk_request& r) {
    constexpr std::uint32_t one_in = 16;
    if (mix(simt::noise()) % one_in == 0) {
        (void)apply_host_free(r.h);
    }
}

/// Finishes the lane's block in an instrumented heap. Each lane calls it for itself.
inline ORCHARD_NOINLINE void instrument_large_block(const chunk_request& r) {
    if (r.block != nullptr) {
        instrument_block(r.h, r.block, r.h.is_hardened() ? bytes_in_chunk(r.h, r.block) : 0, r.bytes, r.asked);
    }
}

/// Gets a block of a chunk for the calling lane: sets `r.block`, or leaves it null after recording the reason. The
/// functions below describe it. Lanes whose chunk is to be advised share one with lanes that want the same advice.
template <bool Advised>
ORCHARD_INLINE void get_large(chunk_request& r) {
    ORCHARD_NO_UNROLL
    do {
        form_group(r);
        if constexpr (Advised) {
            r.mask = simt::match(r.mask, static_cast<std::uint32_t>(r.advice));
        }
        count_large_group(r);
        allocate_chunk(r);
    } while (r.block == nullptr && may_ask_again(r));
    // Without a block, nothing is freed for the host: the view may be that of a heap that fails all requests and has no
    // ring.
    if (r.block == nullptr) {
        count_large_failure(r);
    } else if (is_leader(r.mask)) {
        free_for_host_at_times(r);
    }
}

/// Returns a block of a chunk for the calling lane, or null, whose reason is recorded. Any lanes call it; converged
/// lanes share a chunk. May wait for the host, until a deadline. Cost: see `allocate_chunk`.
///
/// Errors, as recorded: those of `allocate_chunk`. A shortage of memory is an error only after a reclaim, and after the
/// blocks that the host has freed were processed.
/// @param bytes      above 0
/// @param alignment  a power of two up to 2 MiB; blocks are aligned to 256 B in any case. In an instrumented heap, the
///     program's request is above it (`asked_word`).
inline ORCHARD_NOINLINE void* allocate_large(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment) {
    chunk_request r{h, 0, bytes, asked_word::number(alignment), asked_word::asked(alignment)};
    get_large<false>(r);
    if (h.instrumented != 0) {
        instrument_large_block(r);
    }
    return r.block;
}

/// The same for a chunk that is to be advised, in a heap that is not instrumented. The advice is given if the chunk has
/// 2 MiB or more; it then takes whole segments. A function of its own, so that other requests pay nothing for it.
inline ORCHARD_NOINLINE void* allocate_large_advised(const heap_view& h, std::uint64_t bytes, std::uint64_t alignment,
                                                     advice_code advice) {
    chunk_request r{h, 0, bytes, static_cast<std::uint32_t>(alignment)};
    r.advice = advice;
    get_large<true>(r);
    return r.block;
}

}  // namespace orchard::device
