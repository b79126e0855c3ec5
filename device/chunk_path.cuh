// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Large requests: the lanes of a group become one warp request, answered by one warp chunk of whole segments.
/// Source: Zhang et al., TPDS 2025, section VI.A (the warp scheduler). Portions and interleaving: not here yet.

#include "device/grants.cuh"

namespace orchard::device {

/// Every block of a chunk starts at a multiple of this.
inline constexpr std::uint64_t chunk_block_alignment = 256;

/// Where this lane's block starts in its group's chunk, and how long the chunk is.
struct chunk_place {
    std::uint64_t offset = 0;
    std::uint64_t total = 0;
};

/// Blocks side by side in the order of lanes, each on a multiple of its alignment (a power of two).
inline ORCHARD_FN chunk_place place_blocks(lane_mask mask, std::uint64_t bytes, std::uint64_t alignment) {
    chunk_place place;
    for (lane_mask left = mask; left != 0; left &= left - 1) {
        const int lane = simt::lowest_bit(left);
        const std::uint64_t size = simt::shuffle(mask, bytes, lane);
        const std::uint64_t align = simt::shuffle(mask, alignment, lane);
        const std::uint64_t start = (place.total + align - 1) & ~(align - 1);
        if (simt::lane_id() == lane) {
            place.offset = start;
        }
        place.total = start + size;
    }
    place.total = (place.total + chunk_block_alignment - 1) & ~(chunk_block_alignment - 1);
    return place;
}

/// One chunk for the group; this lane's block of it, or null with the reason, the same in all lanes.
inline ORCHARD_NOINLINE void* allocate_one_chunk(const heap_view& h, lane_mask mask, std::uint64_t bytes,
                                                 std::uint64_t alignment, failure_reason* why) {
    // Before the sum, so that it cannot overflow.
    if (simt::ballot(mask, segments_for(bytes) > h.segments) != 0) {
        *why = failure_reason::too_large;
        return nullptr;
    }
    const std::uint64_t align = alignment > chunk_block_alignment ? alignment : chunk_block_alignment;
    const chunk_place place = place_blocks(mask, bytes, align);
    const std::uint64_t k = segments_for(place.total);
    if (k > h.segments) {
        *why = failure_reason::too_large;
        return nullptr;
    }
    segment_run run;
    *why = acquire_segments(h, mask, static_cast<std::uint32_t>(k), &run);
    if (*why != failure_reason::none) {
        return nullptr;
    }
    // One lane acquired the segments, and all write what describes them: now that is behind their last use for all.
    simt::sync(mask);
    const std::uint32_t first = to_underlying(run.first);
    const std::uint32_t segment = first + static_cast<std::uint32_t>(place.offset >> segment_shift);
    auto& record = h.records[first];
    const int rank = simt::rank_in(mask);
    record.offset[rank].set(place.offset);
    if (is_leader(mask)) {
        const int lanes = simt::popcount(mask);
        record.lanes.set(static_cast<std::uint32_t>(lanes));
        record.segments.set(static_cast<std::uint32_t>(k));
        record.offset[lanes].set(place.total);
        record.live.store<order::relaxed>(lanes == 32 ? ~0u : (1u << lanes) - 1);
        h.add(counter::chunk_allocations, 1);
        h.add(counter::live_chunks, 1);
    }
    simt::sync(mask);
    // One descriptor for each segment in which a block begins. The group's sync covers the record.
    const lane_mask beside = simt::match(mask, segment);
    if (is_leader(beside)) {
        auto& d = h.descriptors[segment];
        d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::chunk, 0, first));
    }
    simt::sync(mask);
    return h.address(first) + place.offset;
}

/// Whether fewer lanes could get what the lanes together could not.
ORCHARD_INLINE bool may_help_to_split(failure_reason why) {
    return why == failure_reason::too_large || why == failure_reason::fragmented ||
           why == failure_reason::out_of_memory_device_budget;
}

/// One chunk for the group; this lane's block of it, or null with the reason. Any mask. Where there is no memory for
/// all of them together, the halves of the group ask apart, and so on down to single lanes, so that those are served
/// for whom there is some.
///
/// @param bytes      of this lane, above 0
/// @param alignment  of this lane's block, a power of two up to 2 MiB
/// Cost: as `acquire_segments`, and a few stores of metadata by each lane.
inline ORCHARD_FN void* allocate_chunk(const heap_view& h, lane_mask mask, std::uint64_t bytes, std::uint64_t alignment,
                                       failure_reason* why) {
    void* p = allocate_one_chunk(h, mask, bytes, alignment, why);
    while (p == nullptr && may_help_to_split(*why) && simt::popcount(mask) > 1) {
        const int half = simt::popcount(mask) / 2;
        const auto lower = static_cast<lane_mask>(lowest_ones(mask, static_cast<std::uint32_t>(half)));
        mask = simt::rank_in(mask) < half ? lower : mask & ~lower;
        p = allocate_one_chunk(h, mask, bytes, alignment, why);
    }
    return p;
}

/// Which lane's block starts at `offset` of the chunk; `lanes` where none does. Any lane, alone.
inline ORCHARD_FN std::uint32_t find_block(const chunk_record& record, std::uint64_t offset) {
    std::uint32_t low = 0;
    std::uint32_t high = record.lanes.get();
    if (high > simt::warp_size) {
        return high;  // a stale pointer into something that was rewritten meanwhile
    }
    const std::uint32_t lanes = high;
    while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        if (record.offset[middle].get() < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < lanes && record.offset[low].get() == offset ? low : lanes;
}

/// Ends a chunk whose last lane has freed: descriptors first, then the segments. Any lane, alone.
inline ORCHARD_NOINLINE void end_chunk(const heap_view& h, std::uint32_t first) {
    const auto& record = h.records[first];
    const std::uint32_t lanes = record.lanes.get();
    const std::uint32_t k = record.segments.get();
    std::uint32_t last = no_segment_index;
    for (std::uint32_t i = 0; i < lanes; ++i) {
        const std::uint32_t segment = first + static_cast<std::uint32_t>(record.offset[i].get() >> segment_shift);
        if (segment != last) {
            auto& d = h.descriptors[segment];
            d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::none, 0, 0));
            last = segment;
        }
    }
    h.add(counter::live_chunks, ~std::uint64_t{0});
    release_segments(h, lane_mask{1} << simt::lane_id(), {segment_index{first}, k});
}

/// Frees one lane's block of a chunk; `d` is the descriptor of its segment. Any lane, alone. Never waits.
/// Cost: up to five loads, one atomic; the last lane returns the chunk.
inline ORCHARD_FN bool free_chunk_block(const heap_view& h, const void* p, std::uint64_t d) {
    const std::uint32_t first = descriptor::extent(d);
    auto& record = h.records[first];
    const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - h.address(first));
    const std::uint32_t block = find_block(record, offset);
    if (block >= record.lanes.get()) {
        return false;
    }
    const std::uint32_t bit = 1u << block;
    // Releases this lane's writes; the last one acquires everybody's.
    const std::uint32_t before = record.live.fetch_and<order::acq_rel>(~bit);
    if ((before & bit) == 0) {
        return false;
    }
    if (before == bit) {
        end_chunk(h, first);
    }
    return true;
}

}  // namespace orchard::device
