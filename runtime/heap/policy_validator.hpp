// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The check of the structures of published algorithms (published_view.cuh), a part of the check of a heap's device
/// side.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/published/published_view.cuh"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Checks structures that only some policies have. No lock of the LockMap may be held. Under `rw_malloc`, the taken
/// units must be exactly those from the begin of a block to its end. No call may be in progress.
///
/// Errors: Internal names the first fault; the device's own. Cost: copies those bitmaps.
absl::Status validate_policy_side(const device::published_view& view, backing& memory);

/// Returns the number of blocks that are allocated under `rw_malloc`: one begin bit each. Cost: copies one bitmap of
/// each slab. Errors: the device's own.
absl::StatusOr<std::uint64_t> blocks_in_use(const device::published_view& view, backing& memory);

}  // namespace orchard
