// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reads the map of a heap from the host's structures and from the device's metadata.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "device/state/heap_state.cuh"
#include "host/segment_service.hpp"
#include "runtime/heap/heap_map.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// What the service knows of the segments of its heap.
struct service_snapshot {
    /// Reads the service's structures. Called on the service's thread. Cost: a look at each segment.
    explicit service_snapshot(const segment_service& service);

    std::vector<segment_state> states;  ///< [segment]
    std::vector<portion> portions;      ///< in the order of their addresses
    std::vector<extent> extents;        ///< likewise
};

/// Sets the lists of `map`: `uses`, `slabs`, `chunks`, `portions`, `extents` and `tiers`. Kernels may run; the lists
/// are then of different moments. Nothing is launched, and nothing of the heap changes.
///
/// Errors: the device's own. Cost: copies the descriptors, the bitmaps of slabs, the records of chunks (one copy for
/// each segment in which one begins), and 4 KiB for every 32 segments with a portion that belongs to no chunk.
/// @param managed  the UVM driver moves the memory
absl::Status read_map(const device::heap_view& view, backing& memory, const service_snapshot& service, bool managed,
                      heap_map& map);

}  // namespace orchard
