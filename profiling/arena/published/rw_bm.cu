// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Random walks by words of 32 and 64 bits (RW-BM): Pham et al., ICS 2022.

#include "profiling/arena/published/random_walk.hpp"

namespace orchard::arena {
namespace {

const registrar rw_bm32{walk_allocator<device::page_policy::rw_bm32>("rw_bm32")};
const registrar rw_bm64{walk_allocator<device::page_policy::rw_bm64>("rw_bm64")};

}  // namespace
}  // namespace orchard::arena
