// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reads the warp chunks of a heap on the host, one after another.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "device/state/heap_state.cuh"
#include "runtime/heap/metadata_copy.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Calls `visit(chunk_id, const chunk_blocks&)`, which returns an `absl::Status`, for each chunk that has a lane's
/// block which is not freed, in the order of addresses. Ends at the first error. Exact if no kernel runs. Errors: those
/// of `visit`; the device's own. Cost: copies the records, those of one segment at a time.
///
/// A chunk with whole segments has its record at its first segment, whose descriptor names that segment. A chunk that
/// is one portion has its record at its first leaf. Where no chunk of this heap ever began, the record of a leaf holds
/// arbitrary words, and no stamp of this heap.
///
/// @param descriptors  of all segments
template <class Visit>
absl::Status for_each_chunk(const device::heap_view& view, backing& memory,
                            const std::vector<std::uint64_t>& descriptors, Visit visit) {
    // Which segments can hold a chunk's record, by their descriptors:
    //
    //     chunk, extent == i     the first segment of a chunk: record `records[i]`
    //     chunk, extent != i     another segment of one: no record
    //     portions               up to 32 portions: records `portion_records[i * 32 + leaf]`, of which some are stale
    using device::descriptor;
    using device::segment_kind;
    for (std::uint32_t i = 0; i < view.segments; ++i) {
        const segment_kind kind = descriptor::kind(descriptors[i]);
        if (kind == segment_kind::chunk && descriptor::extent(descriptors[i]) == i) {
            // A descriptor says chunk as long as a lane's block is not freed, so that the record is in use.
            const auto record = copy_of(memory, &view.records[i], 1);
            absl::Status status = record.status();
            if (status.ok()) {
                status = visit(device::chunk_of_segments(i), device::chunk_blocks((*record)[0]));
            }
            if (!status.ok()) {
                return status;
            }
        } else if (kind == segment_kind::portions) {
            const auto records =
                copy_of(memory, &view.portion_records[std::uint64_t{i} * leaves_per_segment], leaves_per_segment);
            absl::Status status = records.status();
            for (std::uint32_t leaf = 0; leaf < leaves_per_segment && status.ok(); ++leaf) {
                const device::portion_record& record = (*records)[leaf];
                // A leaf at which no chunk begins now has a record from an earlier one, with no live block, or words
                // that this heap never wrote, without its stamp.
                if (record.live.load<simt::order::relaxed>() != 0 &&
                    device::portion_record::is_stamped(record.shape.get(), view.stamp)) {
                    status = visit(device::chunk_of_leaves(i, leaf), device::chunk_blocks((*records)[leaf]));
                }
            }
            if (!status.ok()) {
                return status;
            }
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard
