// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The check of blocks that a program holds against the heap's metadata, a part of `heap::validate`.

#include <span>

#include "absl/status/status.h"
#include "device/state/heap_state.cuh"
#include "runtime/heap/held_block.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Checks that the heap's metadata has each of these blocks as allocated, and large enough, and that no two of them
/// share a byte. This finds a fault of address arithmetic, which the metadata alone does not show. No call may be in
/// progress.
///
/// Errors: Internal names the first fault; InvalidArgument for a block of 0 bytes or outside the heap; the device's
/// own. Cost: copies the records of all chunks, and the bitmaps of the slabs in which the blocks lie.
absl::Status validate_held(const device::heap_view& view, backing& memory, std::span<const held_block> held);

}  // namespace orchard
