// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Random walks over single bits (RW): Pham et al., ICS 2022.

#include "profiling/arena/published/random_walk.hpp"

namespace orchard::arena {
namespace {

const registrar rw{walk_allocator<device::page_policy::rw>("rw")};

}  // namespace
}  // namespace orchard::arena
