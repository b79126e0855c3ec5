// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The check of a heap's device side, step 3 of `heap::validate`. heap_validator.cpp lists the checks.

#include <cstdint>
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/published/published_view.cuh"
#include "runtime/heap/ownership.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Checks the device side of a heap on a copy. Descriptors, slab tables, bitmaps, chunk records, segment cache and
/// slots are checked against each other and against the memory that the host handed out. No call may be in progress:
/// the copies are made one after the other, and would contradict each other otherwise.
///
/// Errors: Internal names the first fault; the device's own. Cost: copies all metadata, a few segments at a time.
/// @param granted  the memory that the service has handed out, collected while it was paused
absl::Status validate_device_side(const device::published_view& view, backing& memory, const granted_memory& granted);

}  // namespace orchard
