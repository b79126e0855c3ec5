// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The usage of the page classes, read from descriptors and bitmaps. Pages are counted there, because allocation and
/// free do not count them.

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "device/published/published_view.cuh"
#include "runtime/statistics/statistics.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// The slabs of one class, and the pages in use in them.
struct class_usage {
    std::uint64_t slabs = 0;
    std::uint64_t pages_in_use = 0;
};

/// Returns the usage of each class, by its index. Kernels may run, even kernels that fill the device, because nothing
/// is launched. Errors: the device's own. Cost: copies the descriptors and the bitmaps of slabs.
absl::StatusOr<std::vector<class_usage>> usage_of_classes(const device::heap_view& view, backing& memory);

/// Returns the pages in use in all slabs, from `usage`. Under `rw_malloc` returns the blocks in use, for which one
/// bitmap of each slab is copied.
absl::StatusOr<std::uint64_t> pages_in_use(const device::published_view& view, backing& memory,
                                           const std::vector<class_usage>& usage);

/// Returns the statistics of each class: its requests so far, and its `usage`.
/// @param state  a copy of the heap's state
/// @param usage  [class_count], a result of `usage_of_classes`
std::array<class_statistics, class_count> statistics_of_classes(const device::heap_state& state,
                                                                const std::vector<class_usage>& usage);

}  // namespace orchard
