// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Collaborative random walks of a warp (CoRW), without and with the lock of the paper: Pham et al., ICS 2022.

#include "profiling/arena/published/random_walk.hpp"

namespace orchard::arena {
namespace {

const registrar corw{walk_allocator<device::page_policy::corw>("corw")};
const registrar corw_locked{walk_allocator<device::page_policy::corw_locked>("corw_locked")};

}  // namespace
}  // namespace orchard::arena
