// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The check of the warp chunks, a part of the check of a heap's device side (heap_validator.cpp).

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "device/state/heap_state.cuh"
#include "runtime/heap/ownership.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Checks the chunks of a heap, including those that are portions: their records, their descriptors, and the owner of
/// each leaf. Enters the memory that they own into the ownership. No call may be in progress. Errors: Internal names
/// the first fault; the device's own. Cost: copies all records, those of one segment at a time.
/// @param descriptors  of all segments
absl::Status validate_chunks(const device::heap_view& view, backing& memory,
                             const std::vector<std::uint64_t>& descriptors, ownership& owners);

}  // namespace orchard
