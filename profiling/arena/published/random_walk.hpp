// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The heaps of M. Pham et al. (ICS 2022) as the arena runs them.

#include <utility>

#include "device/published/published_ref.cuh"
#include "profiling/arena/adapter.hpp"
#include "runtime/heap/published_heap.hpp"

namespace orchard::arena {

/// A heap that the algorithm `P` serves. `initialise` is `trim`: the arena frees all blocks before.
template <device::page_policy P>
struct walk_owner {
    heap h;

    [[nodiscard]] published_ref<P> ref() const { return published_ref<P>(published_heaps::view(h)); }
    absl::Status initialise() { return h.trim(); }
};

/// Returns the allocator of one algorithm.
template <device::page_policy P>
allocator walk_allocator(const char* name) {
    return adapt<walk_owner<P>>({.name = name, .source = "Pham et al., ICS 2022"},
                                [](const simt::executor& on, std::uint64_t bytes) -> absl::StatusOr<walk_owner<P>> {
                                    options values;
                                    values.device = on.kind == simt::device_kind::cuda ? device_option::cuda
                                                                                       : device_option::emulated;
                                    values.emulated_workers = static_cast<int>(on.workers);
                                    values.capacity = bytes;
                                    auto made = published_heaps::create(values, {.algorithm = P});
                                    if (!made.ok()) {
                                        return made.status();
                                    }
                                    return walk_owner<P>{*std::move(made)};
                                });
}

}  // namespace orchard::arena
