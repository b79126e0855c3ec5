// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The heaps of M. Pham et al. (ICS 2022) as the arena runs them.

#include "profiling/arena/adapter.hpp"
#include "runtime/published/random_walk.hpp"

namespace orchard::arena {

/// Returns the allocator of one algorithm.
template <device::page_policy P>
allocator walk_allocator(const char* name) {
    return adapt<random_walk<P>>({.name = name, .source = "Pham et al., ICS 2022"}, random_walk<P>::create);
}

}  // namespace orchard::arena
