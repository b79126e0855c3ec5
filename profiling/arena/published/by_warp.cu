// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Orchard's heap with small requests grouped by the warp, as XMalloc groups them, and not by the class of their size
/// (docs/xmalloc.md).

#include "device/published/xmalloc/by_warp_ref.cuh"

#include "profiling/arena/adapter.hpp"
#include "profiling/arena/allocators/orchard_owner.hpp"

namespace orchard::arena {
namespace {

/// Returns the allocator whose shared blocks have up to `MostShared` bytes.
template <std::uint32_t MostShared>
allocator by_warp(const char* name) {
    using owner = orchard_owner<by_warp_ref<MostShared>>;
    return adapt<owner>({.name = name, .source = "this library, with XMalloc's coalescing"}, owner::create);
}

const registrar small_blocks{by_warp<8192>("orchard_by_warp")};
const registrar large_blocks{by_warp<65536>("orchard_by_warp_64k")};

}  // namespace
}  // namespace orchard::arena
