// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "device/heap_state.cuh"
#include "runtime/heap/ownership.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Checks the chunks of a heap, those that are portions too: records, descriptors, and whose each leaf is; enters what
/// they own. Nothing may be under way.
/// @param descriptors  of all segments
/// Errors: Internal names the first fault; the device's own. Cost: copies all records, one segment's at a time.
absl::Status validate_chunks(const device::heap_view& view, backing& memory,
                             const std::vector<std::uint64_t>& descriptors, ownership& owners);

}  // namespace orchard
