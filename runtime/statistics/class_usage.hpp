// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the classes of pages hold, read from descriptors and bitmaps: pages are counted there, not when they are
/// allocated and freed.

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "device/heap_state.cuh"
#include "runtime/statistics/statistics.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// The slabs of one class, and the pages that are taken in them.
struct class_usage {
    std::uint64_t slabs = 0;
    std::uint64_t pages_in_use = 0;
};

/// For each class, by its index. Kernels may run, also some that fill the device: nothing is launched.
/// Cost: copies the descriptors, and the bitmaps of slabs.
absl::StatusOr<std::vector<class_usage>> usage_of_classes(const device::heap_view& view, backing& memory);

/// Pages that are taken in all slabs, which `usage` says; under `rw_malloc` blocks, for which one bitmap of each slab
/// is copied.
absl::StatusOr<std::uint64_t> pages_in_use(const device::heap_view& view, backing& memory,
                                           const std::vector<class_usage>& usage);

/// The statistics of each class, of what was asked for so far and of `usage`.
std::array<class_statistics, class_count> statistics_of_classes(const device::heap_state& state,
                                                                const std::vector<class_usage>& usage);

}  // namespace orchard
