// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/heap_state.cuh"
#include "runtime/heap/ownership.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Checks a heap's device side on a copy of it: descriptors, slab tables, bitmaps, chunk records, segment cache and
/// slots against each other and against what the host handed out. Nothing may be under way.
///
/// Errors: Internal names the first fault; the device's own. Cost: copies all metadata, a few segments at a time.
absl::Status validate_device_side(const device::heap_view& view, backing& memory, const granted_memory& granted);

}  // namespace orchard
