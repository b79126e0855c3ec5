// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How much memory the warp chunks of a heap hold, and how much of that is in use: the result of `heap::chunks`.
///
///     chunk of 4 lanes     | 1 MiB live | 1 MiB freed | 1 MiB freed | 1 MiB freed |      held 4 MiB, live 1 MiB
///
/// The ratio of the two tells whether a smaller `chunk_lanes` would save memory.

#include <cstdint>

#include "absl/status/statusor.h"
#include "device/state/heap_state.cuh"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// The memory that warp chunks hold, and how much of it is in use. Lanes that allocate together share a chunk, which
/// remains whole until the last of them has freed its block (option `chunk_lanes`).
struct chunk_usage {
    std::uint64_t chunks = 0;      ///< chunks that at least one lane has not freed
    std::uint64_t lanes = 0;       ///< lanes that got a block or an array in one of them
    std::uint64_t live_lanes = 0;  ///< those of these lanes that have not freed it
    std::uint64_t held_bytes = 0;  ///< size of the segments and leaves of those chunks
    std::uint64_t live_bytes =
        0;  ///< size of the blocks that are not freed, in units of 256 B; an array counts as its share of the rows

    /// Returns `held_bytes` / `live_bytes`, at least 1; returns 1 if there is no chunk.
    [[nodiscard]] double held_over_live() const {
        return live_bytes == 0 ? 1 : static_cast<double>(held_bytes) / static_cast<double>(live_bytes);
    }
};

/// Returns the sum over all chunks of a heap. Exact if no kernel runs. Errors: the device's own. Cost: copies the
/// descriptors and the records of chunks.
absl::StatusOr<chunk_usage> usage_of_chunks(const device::heap_view& view, backing& memory);

}  // namespace orchard
