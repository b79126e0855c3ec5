// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The device functions of orchard/orchard.h, compiled once for programs with separable compilation (nvcc -rdc=true),
/// and as PTX and LTO-IR for programs that are compiled while they run. Each CUDA module that is linked with it has its
/// own symbol `orchard_root`, which the host fills in (default_heap.hpp).

#include "runtime/default_heap/heap_root.cuh"
#include "runtime/include/orchard/orchard.h"

extern "C" {
__constant__ orchard::heap_root orchard_root = {orchard::heap_root::current_abi, sizeof(orchard::heap_root), {}};
}

extern "C" __device__ void* orchard_malloc(size_t bytes) { return orchard_root.malloc(bytes); }

extern "C" __device__ void orchard_free(void* block) { orchard_root.free(block); }

extern "C" __device__ void* orchard_calloc(size_t count, size_t size) { return orchard_root.calloc(count, size); }

extern "C" __device__ void* orchard_realloc(void* block, size_t bytes) { return orchard_root.realloc(block, bytes); }

extern "C" __device__ void* orchard_aligned_alloc(size_t alignment, size_t bytes) {
    return orchard_root.aligned_alloc(alignment, bytes);
}

extern "C" __device__ size_t orchard_usable_size(const void* block) { return orchard_root.usable_size(block); }

extern "C" __device__ void orchard_note_access(const void* p) { orchard_root.note_access(p); }

// The host's part of this file announces the module. A linker takes it from the archive together with the device's
// part, whose registration refers to it.
#if !defined(ORCHARD_DEVICE_ONLY)
#include "runtime/default_heap/module_registration.cuh"

namespace {
int find_root(void** root) { return static_cast<int>(cudaGetSymbolAddress(root, orchard_root)); }
const orchard::detail::module_registration registered{find_root};
}  // namespace
#endif
