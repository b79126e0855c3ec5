// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/heap_state.cuh"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Checks what only some policies have: that no lock of the LockMap is held, and that under `rw_malloc` the units taken
/// are exactly those from where a block begins to where it ends. Nothing may be under way.
///
/// Errors: Internal names the first fault; the device's own. Cost: copies those bitmaps.
absl::Status validate_policy_side(const device::heap_view& view, backing& memory);

/// Blocks that are allocated under `rw_malloc`. Cost: copies one bitmap of each slab.
absl::StatusOr<std::uint64_t> blocks_in_use(const device::heap_view& view, backing& memory);

}  // namespace orchard
