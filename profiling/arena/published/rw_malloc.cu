// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Blocks of consecutive units of 64 B (RW_malloc): Pham et al., ICS 2022.

#include "profiling/arena/published/random_walk.hpp"

namespace orchard::arena {
namespace {

const registrar rw_malloc{walk_allocator<device::page_policy::rw_malloc>("rw_malloc")};

}  // namespace
}  // namespace orchard::arena
