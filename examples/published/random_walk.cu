// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The applications in the heaps of M. Pham et al. (docs/random_walk.md).

#include "runtime/published/random_walk.hpp"

#include "examples/published/in_allocator.cuh"

namespace orchard::examples {
namespace {

using device::page_policy;

template <page_policy P>
applications_in in_heap_of(const char* name) {
    return {name, random_walk<P>::create, any_size};
}

const applications_in all[] = {
    in_heap_of<page_policy::rw>("rw"),
    in_heap_of<page_policy::rw_bm32>("rw_bm32"),
    in_heap_of<page_policy::rw_bm64>("rw_bm64"),
    in_heap_of<page_policy::corw>("corw"),
    in_heap_of<page_policy::corw_locked>("corw_locked"),
    in_heap_of<page_policy::rw_malloc>("rw_malloc"),
};

}  // namespace
}  // namespace orchard::examples
