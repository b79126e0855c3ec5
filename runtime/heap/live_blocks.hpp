// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The live blocks of a heap, read from its metadata.

#include <vector>

#include "absl/status/statusor.h"
#include "device/state/heap_state.cuh"
#include "runtime/nvtx/domain.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Returns the memory of all blocks that are allocated, in the order of their addresses: each page that is in use, each
/// lane's block of a chunk, and the whole of a chunk with interleaved arrays. In a hardened heap a page is told as a
/// whole, with the guard behind its block, since `free` reads that. Blocks that the host holds in reserve count as
/// allocated.
///
/// Exact if no kernel runs. Not for a heap of a published algorithm. Errors: the device's own. Cost: copies the
/// descriptors, the bitmaps of slabs and the records of chunks; 16 bytes for each block.
absl::StatusOr<std::vector<nvtx::address_range>> live_blocks(const device::heap_view& view, backing& memory);

}  // namespace orchard
