// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Heaps whose small requests a published algorithm serves, in place of Orchard's own: to compare them with it, and
/// with their theory. Kernels use `published_ref<P>` (device/published/published_ref.cuh), made of `heap::view()`.

#include <cstdint>

#include "absl/status/statusor.h"
#include "device/published/page_policy.cuh"
#include "runtime/heap/heap.hpp"

namespace orchard {

/// Which algorithm serves a heap. The default is none: Orchard's own.
struct published_settings {
    device::page_policy algorithm = device::page_policy::default_walk;
    /// Of `rw_malloc`: bytes of the unit of which blocks up to 512 KiB are consecutive runs; a power of two from 16 B
    /// to 8 KiB.
    std::uint64_t unit = 64;
};

struct published_heaps {
    /// Returns a heap as `heap::create` does, served by `walk.algorithm`. All of its metadata is made at once, so that
    /// `automatic` is the fixed backing, and where `range` is 0 it is the budgets.
    ///
    /// Errors: those of `heap::create`; InvalidArgument for a unit that is not possible, or without `capacity` where
    /// the backing is elastic.
    static absl::StatusOr<heap> create(const options& values, const published_settings& walk);

    /// The same in memory that the caller supplies, as `heap::create_in`.
    static absl::StatusOr<heap> create_in(void* memory, std::uint64_t bytes, const options& values,
                                          const published_settings& walk);
};

}  // namespace orchard
