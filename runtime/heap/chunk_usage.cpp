// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Adds up the records of all chunks (chunk_walk.hpp).

#include "runtime/heap/chunk_usage.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "runtime/heap/chunk_walk.hpp"

namespace orchard {
namespace {

/// Adds one chunk to the sums. While kernels run, the record may change between its words: every loop is bounded by
/// `lanes`, which the caller has checked, and a difference that would be negative counts as 0.
void add(const device::chunk_blocks& blocks, chunk_usage& sum) {
    const std::uint32_t lanes = blocks.lanes();
    const std::uint32_t live = blocks.live().load<simt::order::relaxed>();
    ++sum.chunks;
    sum.lanes += lanes;
    // A bit for each lane that has not freed its block.
    sum.live_lanes += static_cast<std::uint64_t>(std::popcount(live));
    // The whole chunk, until its last lane frees.
    sum.held_bytes += blocks.segments() * segment_bytes + blocks.leaves() * big_page_bytes;
    // Lanes whose blocks begin at the same offset share one sub-array.
    for (std::uint32_t first = 0; first < lanes;) {
        // The lanes [first, end) share a sub-array; blocks never begin at the same offset.
        std::uint32_t end = first + 1;
        while (end < lanes && blocks.offset(end) == blocks.offset(first)) {
            ++end;
        }
        // Units of 256 B from the chunk's first byte.
        const std::uint32_t begin = blocks.offset(first);
        const std::uint32_t behind = std::max(blocks.offset(end), begin);  // smaller only while a kernel writes it
        // Up to the next block, so that the rest of a unit behind the requested bytes counts as in use.
        const std::uint64_t bytes = std::uint64_t{behind - begin} << device::chunk_unit_shift;
        // Each lane of a sub-array counts as an equal part of it. A block has one lane, and counts whole.
        for (std::uint32_t i = first; i < end; ++i) {
            sum.live_bytes += (live >> i & 1) * (bytes / (end - first));
        }
        first = end;
    }
}

}  // namespace

/// The descriptors tell which segments have chunks, so that only their records are copied.
absl::StatusOr<chunk_usage> usage_of_chunks(const device::heap_view& view, backing& memory) {
    const auto descriptors = copy_of_descriptors(view, memory);
    if (!descriptors.ok()) {
        return descriptors.status();
    }
    chunk_usage sum;
    absl::Status status =
        for_each_chunk(view, memory, *descriptors, [&](device::chunk_id, const device::chunk_blocks& blocks) {
            if (blocks.lanes() == 0 || blocks.lanes() > simt::warp_size) {
                return absl::OkStatus();  // a kernel is writing the record
            }
            add(blocks, sum);
            return absl::OkStatus();
        });
    return status.ok() ? absl::StatusOr<chunk_usage>(sum) : status;
}

}  // namespace orchard
