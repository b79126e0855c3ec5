// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Requests of many sizes, for a map that shows all that a heap has.

#include "absl/status/statusor.h"
#include "runtime/heap/heap.hpp"

namespace orchard::examples {

/// Returns the map of a new heap in which a kernel has allocated blocks of 16 B to 5 MiB and interleaved arrays, and
/// has freed about a third of them. The requests are the same each time; places depend on the order in which threads
/// run. The heap has 256 MiB on the device and, where the backing spills, as much on the host; it is destroyed. Errors:
/// those of `heap::create`; the device's own.
absl::StatusOr<heap_map> map_of_mixed_sizes(const options& values);

}  // namespace orchard::examples
