// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Orchard's own allocator, in a heap of fixed size.

#include "profiling/arena/adapter.hpp"
#include "profiling/arena/allocators/orchard_owner.hpp"

namespace orchard::arena {
namespace {

const registrar orchard_registered{
    adapt<orchard_owner<heap_ref>>({.name = "orchard", .source = "this library"}, orchard_owner<heap_ref>::create)};

}  // namespace
}  // namespace orchard::arena
