// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/heap/chunk_usage.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "runtime/heap/chunk_walk.hpp"

namespace orchard {
namespace {

void add(const device::chunk_blocks& blocks, chunk_usage& sum) {
    const std::uint32_t lanes = blocks.lanes();
    const std::uint32_t live = blocks.live().load<simt::order::relaxed>();
    ++sum.chunks;
    sum.lanes += lanes;
    sum.live_lanes += static_cast<std::uint64_t>(std::popcount(live));
    sum.held_bytes += blocks.segments() * segment_bytes + blocks.leaves() * big_page_bytes;
    // Lanes whose blocks begin at the same offset share one sub-array.
    for (std::uint32_t first = 0; first < lanes;) {
        std::uint32_t end = first + 1;
        while (end < lanes && blocks.offset(end) == blocks.offset(first)) {
            ++end;
        }
        const std::uint32_t begin = blocks.offset(first);
        const std::uint32_t behind = std::max(blocks.offset(end), begin);  // smaller only while a kernel writes it
        const std::uint64_t bytes = std::uint64_t{behind - begin} << device::chunk_unit_shift;
        for (std::uint32_t i = first; i < end; ++i) {
            sum.live_bytes += (live >> i & 1) * (bytes / (end - first));
        }
        first = end;
    }
}

}  // namespace

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
