// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Heaps in which a published algorithm serves small requests in place of Orchard's own. They serve to compare Orchard
/// with that algorithm and with its theory. Kernels use `published_ref<P>` (device/published/published_ref.cuh), which
/// is made from `published_heaps::view`.

#include <cstdint>

#include "absl/status/statusor.h"
#include "device/published/published_view.cuh"
#include "runtime/heap/heap.hpp"

namespace orchard {

/// The algorithm that serves a heap. The default is none: Orchard's own.
struct published_settings {
    device::page_policy algorithm = device::page_policy::default_walk;
    /// For `rw_malloc`: the unit in bytes, a power of two from 16 B to 8 KiB. Blocks up to 512 KiB are consecutive runs
    /// of units.
    std::uint64_t unit = 64;
};

/// The functions that create such heaps. A struct, because `heap` names it as a friend.
struct published_heaps {
    /// Returns a heap as `heap::create` does, served by `walk.algorithm`. All of its metadata is made at once.
    /// Therefore the backing `automatic` is the fixed one, and `range` 0 means the budgets.
    ///
    /// Errors: those of `heap::create`; InvalidArgument for a unit that is not possible, for an elastic backing without
    /// `capacity`, or for more than 2 TiB of addresses.
    static absl::StatusOr<heap> create(const options& values, const published_settings& walk);

    /// Returns such a heap in memory that the caller supplies, as `heap::create_in` does.
    static absl::StatusOr<heap> create_in(void* memory, std::uint64_t bytes, const options& values,
                                          const published_settings& walk);

    /// Returns the view from which a kernel's `published_ref` is made. It is valid while the heap lives.
    static const device::published_view& view(const heap& h);
};

}  // namespace orchard
