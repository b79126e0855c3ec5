// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// CUDA's own `malloc` and `free` in the arena.

#include "profiling/arena/allocators/cuda_malloc.hpp"

#include "profiling/arena/adapter.hpp"

namespace orchard::arena {
namespace {

const registrar cuda_malloc_registered{adapt<cuda_malloc_owner>(
    {.name = "cuda_malloc", .source = "CUDA's malloc in kernels", .needs_cuda = true}, cuda_malloc_owner::create)};

}  // namespace
}  // namespace orchard::arena
