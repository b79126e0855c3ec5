// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "device/heap_state.cuh"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// What warp chunks hold, and how much of that is in use: lanes that ask together share a chunk, which stays whole
/// until the last of them has freed its block (option `chunk_lanes`).
struct chunk_usage {
    std::uint64_t chunks = 0;      ///< that a lane has not freed
    std::uint64_t lanes = 0;       ///< that got a block, or an array, in one of them
    std::uint64_t live_lanes = 0;  ///< of these, those that have not freed it
    std::uint64_t held_bytes = 0;  ///< segments and leaves of those chunks
    std::uint64_t live_bytes =
        0;  ///< of what is not freed, in units of 256 B; an array counts as its share of the rows

    /// `held_bytes` over `live_bytes`: at least 1; 1 where there is no chunk.
    [[nodiscard]] double held_over_live() const {
        return live_bytes == 0 ? 1 : static_cast<double>(held_bytes) / static_cast<double>(live_bytes);
    }
};

/// Adds up the chunks of a heap. Exact when no kernel runs.
/// Errors: the device's own. Cost: copies the descriptors, and the records of chunks.
absl::StatusOr<chunk_usage> usage_of_chunks(const device::heap_view& view, backing& memory);

}  // namespace orchard
