// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Kernels as users write them, without any bound on their registers. `profiling/report/registers.py` compiles this
/// file and reads the output of ptxas. Part of no program.

#include <cstdint>

#include "device/heap_arrays_impl.cuh"
#include "device/heap_ref.cuh"

namespace orchard::registers {
namespace {

__device__ __forceinline__ std::uint32_t index() { return blockIdx.x * blockDim.x + threadIdx.x; }

}  // namespace

extern "C" __global__ void malloc_fixed(heap_ref heap, void** blocks) { blocks[index()] = heap.malloc(64); }

extern "C" __global__ void malloc_any(heap_ref heap, void** blocks, const std::uint64_t* bytes) {
    blocks[index()] = heap.malloc(bytes[index()]);
}

extern "C" __global__ void free_any(heap_ref heap, void** blocks) { heap.free(blocks[index()]); }

extern "C" __global__ void arrays_allocate(heap_ref heap, lane_array<float>* arrays, const std::uint64_t* counts) {
    arrays[index()] = heap.allocate_array<float>(counts[index()]);
}

extern "C" __global__ void arrays_free(heap_ref heap, const lane_array<float>* arrays) {
    heap.free_array(arrays[index()]);
}

extern "C" __global__ void mixed_malloc_free(heap_ref heap, const std::uint64_t* bytes, std::uint32_t rounds) {
    for (std::uint32_t i = 0; i < rounds; ++i) {
        heap.free(heap.malloc(bytes[index()] + i));
    }
}

extern "C" __global__ void mixed_realloc(heap_ref heap, void** blocks, const std::uint64_t* bytes) {
    blocks[index()] = heap.realloc(blocks[index()], bytes[index()]);
}

}  // namespace orchard::registers
