// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Kernels as users write them, without any bound on their registers. `profiling/report/registers.py` compiles this
/// file and reads the output of ptxas. Part of no program.
///
/// A heap's calls are inlined in part, and the registers of a kernel limit how many of its warps run at once. The names
/// say which limit of registers.py a kernel is held to: malloc..., free..., arrays..., and the others (mixed).

#include <cstdint>

#include "device/heap_arrays_impl.cuh"
#include "device/heap_ref.cuh"

namespace orchard::registers {
namespace {

/// Returns the number of the calling thread; without a check, since the kernels are never launched.
__device__ __forceinline__ std::uint32_t index() { return blockIdx.x * blockDim.x + threadIdx.x; }

}  // namespace

/// One size for all threads: the size class is a constant.
extern "C" __global__ void malloc_fixed(heap_ref heap, void** blocks) { blocks[index()] = heap.malloc(64); }

/// Another size in each thread: the class is computed at run time.
extern "C" __global__ void malloc_any(heap_ref heap, void** blocks, const std::uint64_t* bytes) {
    blocks[index()] = heap.malloc(bytes[index()]);
}

extern "C" __global__ void free_any(heap_ref heap, void** blocks) { heap.free(blocks[index()]); }

/// Allocate and free arrays of lanes.
extern "C" __global__ void arrays_allocate(heap_ref heap, lane_array<float>* arrays, const std::uint64_t* counts) {
    arrays[index()] = heap.allocate_array<float>(counts[index()]);
}

extern "C" __global__ void arrays_free(heap_ref heap, const lane_array<float>* arrays) {
    heap.free_array(arrays[index()]);
}

/// Both calls in a loop: values of the loop live across them.
extern "C" __global__ void mixed_malloc_free(heap_ref heap, const std::uint64_t* bytes, std::uint32_t rounds) {
    for (std::uint32_t i = 0; i < rounds; ++i) {
        heap.free(heap.malloc(bytes[index()] + i));
    }
}

/// A call that may allocate, copy and free.
extern "C" __global__ void mixed_realloc(heap_ref heap, void** blocks, const std::uint64_t* bytes) {
    blocks[index()] = heap.realloc(blocks[index()], bytes[index()]);
}

}  // namespace orchard::registers
