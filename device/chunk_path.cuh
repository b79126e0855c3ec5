// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Large requests: the lanes of a group become one warp request, answered by one warp chunk of whole segments.
/// Source: Zhang et al., TPDS 2025, section VI.A (the warp scheduler). Portions and interleaving: not here yet.

#include "device/grants.cuh"

namespace orchard::device {

/// Every block of a chunk starts at a multiple of this.
inline constexpr std::uint64_t chunk_block_alignment = 256;

/// One lane's part in its group's request for a chunk, in its memory; `mailbox_client.cuh` says why.
struct chunk_request {
    const heap_view& h;
    lane_mask mask;            ///< the group; after a split, the part of it that this lane is in
    std::uint64_t bytes;       ///< of this lane, above 0
    std::uint64_t alignment;   ///< of this lane's block, a power of two up to 2 MiB
    std::uint64_t offset = 0;  ///< of this lane's block in the chunk
    std::uint64_t total = 0;   ///< length of the chunk
    std::uint32_t k = 0;       ///< the same in segments
    segment_run run{};
    failure_reason why = failure_reason::none;
    void* block = nullptr;  ///< this lane's
};

/// Lays blocks side by side in the order of lanes, each on a multiple of its alignment (a power of two). False where
/// they are too large. All lanes of a converged group.
inline ORCHARD_NOINLINE bool place_blocks(chunk_request& r) {
    // Before the sum, so that it cannot overflow.
    const bool too_large = simt::ballot(r.mask, segments_for(r.bytes) > r.h.segments) != 0;
    std::uint64_t total = 0;
    ORCHARD_NO_UNROLL
    for (lane_mask left = too_large ? 0 : r.mask; left != 0; left &= left - 1) {
        const int lane = simt::lowest_bit(left);
        const std::uint64_t asked = simt::shuffle(r.mask, r.alignment, lane);
        const std::uint64_t align = asked > chunk_block_alignment ? asked : chunk_block_alignment;
        total = (total + align - 1) & ~(align - 1);
        if (simt::lane_id() == lane) {
            r.offset = total;
        }
        total += simt::shuffle(r.mask, r.bytes, lane);
    }
    total = (total + chunk_block_alignment - 1) & ~(chunk_block_alignment - 1);
    r.total = total;
    const std::uint64_t k = segments_for(total);
    r.k = static_cast<std::uint32_t>(k);
    return !too_large && k <= r.h.segments;
}

/// Writes what describes the chunk `r.run`, and says where this lane's block is. All lanes of a converged group.
inline ORCHARD_NOINLINE void write_record(chunk_request& r) {
    // One lane acquired the segments, and all write what describes them: now that is behind their last use for all.
    simt::sync(r.mask);
    const std::uint32_t first = to_underlying(r.run.first);
    auto& record = r.h.records[first];
    record.offset[simt::rank_in(r.mask)].set(r.offset);
    if (is_leader(r.mask)) {
        const int lanes = simt::popcount(r.mask);
        record.lanes.set(static_cast<std::uint32_t>(lanes));
        record.segments.set(r.k);
        record.offset[lanes].set(r.total);
        record.live.store<order::relaxed>(lanes == 32 ? ~0u : (1u << lanes) - 1);
        r.h.add(counter::chunk_allocations, 1);
        r.h.add(counter::live_chunks, 1);
    }
    simt::sync(r.mask);
    // One descriptor for each segment in which a block begins. The group's sync covers the record.
    const std::uint32_t segment = first + static_cast<std::uint32_t>(r.offset >> segment_shift);
    if (is_leader(simt::match(r.mask, segment))) {
        auto& d = r.h.descriptors[segment];
        d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::chunk, 0, first));
    }
    simt::sync(r.mask);
    r.block = r.h.address(first) + r.offset;
}

/// Where fewer lanes could get what the lanes together could not: the lower or the upper half of the group is the
/// group now, whichever this lane is in.
inline ORCHARD_NOINLINE bool split_group(chunk_request& r) {
    const int half = simt::popcount(r.mask) / 2;
    if (half == 0 || !(r.why == failure_reason::too_large || r.why == failure_reason::fragmented ||
                       r.why == failure_reason::out_of_memory_device_budget)) {
        return false;
    }
    const auto lower = static_cast<lane_mask>(lowest_ones(r.mask, static_cast<std::uint32_t>(half)));
    r.mask = simt::rank_in(r.mask) < half ? lower : r.mask & ~lower;
    return true;
}

/// One chunk for the group; this lane's block of it in `r.block`, or null with the reason in `r.why`. Any mask. Where
/// there is no memory for all of them together, the halves of the group ask apart, and so on down to single lanes, so
/// that those are served for whom there is some.
/// Cost: as `acquire_segments`, and a few stores of metadata by each lane.
inline ORCHARD_FN void allocate_chunk(chunk_request& r) {
    do {
        r.why = place_blocks(r) ? acquire_segments(r.h, r.mask, r.k, &r.run) : failure_reason::too_large;
        if (r.why == failure_reason::none) {
            return write_record(r);
        }
    } while (split_group(r));
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

/// What freeing a block came to: one of these, or the first segment of the chunk, which nobody uses any more.
struct freed_block {
    static constexpr std::uint32_t wrong = 0xffffffffu;  ///< `p` is no block that is allocated
    static constexpr std::uint32_t right = 0xfffffffeu;
};

/// Frees one lane's block of a chunk. Any lane, alone. As `freed_block`.
/// Cost: up to seven loads, one atomic.
inline ORCHARD_NOINLINE std::uint32_t free_chunk_block(const heap_view& h, const void* p) {
    if (!h.owns(p)) {
        return freed_block::wrong;
    }
    auto offset = static_cast<std::uint64_t>(static_cast<const char*>(p) - h.base);
    // Pairs with the release that made the segment what it is: behind it lies the chunk's record.
    const std::uint64_t d = h.descriptors[offset >> segment_shift].load<order::acquire>();
    if (descriptor::kind(d) != segment_kind::chunk) {
        return freed_block::wrong;
    }
    const std::uint32_t first = descriptor::extent(d);
    offset -= std::uint64_t{first} << segment_shift;
    auto& record = h.records[first];
    const std::uint32_t block = find_block(record, offset);
    if (block >= record.lanes.get()) {
        return freed_block::wrong;
    }
    const std::uint32_t bit = 1u << block;
    // Releases this lane's writes; the last one acquires everybody's.
    const std::uint32_t before = record.live.fetch_and<order::acq_rel>(~bit);
    return (before & bit) == 0 ? freed_block::wrong : before == bit ? first : freed_block::right;
}

/// Ends a chunk whose last lane has freed: takes its descriptors away. Any lane, alone.
inline ORCHARD_NOINLINE void end_chunk(const heap_view& h, std::uint32_t first) {
    const auto& record = h.records[first];
    std::uint32_t last = no_segment_index;
    ORCHARD_NO_UNROLL
    for (std::uint32_t left = record.lanes.get(); left != 0; --left) {
        const std::uint32_t segment =
            first + static_cast<std::uint32_t>(record.offset[left - 1].get() >> segment_shift);
        if (segment != last) {
            auto& d = h.descriptors[segment];
            d.store<order::release>(descriptor::next(d.load<order::relaxed>(), segment_kind::none, 0, 0));
            last = segment;
        }
    }
    h.add(counter::live_chunks, ~std::uint64_t{0});
}

/// Puts the segments of a chunk that has ended into the magazine. Any lane, alone.
inline ORCHARD_NOINLINE void return_chunk(const heap_view& h, std::uint32_t first) {
    magazine_put<magazine_put_bits_apart>(h, {segment_index{first}, h.records[first].segments.get()});
}

/// Frees one lane's block of a chunk; the last lane puts the chunk's segments into the magazine. Any lane, alone.
/// Never waits, and needs no mailbox. False where `p` is no such block.
inline ORCHARD_FN bool free_from_chunk(const heap_view& h, const void* p) {
    const std::uint32_t first = free_chunk_block(h, p);
    if (first < freed_block::right) {
        end_chunk(h, first);
        return_chunk(h, first);
    }
    return first != freed_block::wrong;
}

}  // namespace orchard::device
