// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Gallatin by a pointer that kernels get: segments of 16 MiB, slices of 16 to 4096 bytes, its defaults.
#include <gallatin/allocators/gallatin.cuh>

#include <harness.hpp>

using allocator = gallatin::allocators::Gallatin<16ull * 1024 * 1024, 16ull, 4096ull>;

struct gallatin_heap {
    allocator* of;
    __device__ void* malloc(std::size_t bytes) const { return of->malloc(bytes); }
    __device__ void free(void* block) const { of->free(block); }
};

int main(int argc, char** argv) {
    return run<gallatin_heap>(argc, argv, [](const arguments& args, gallatin_heap& heap) {
        heap.of = allocator::generate_on_device(args.pool, 42, false);
        return cudaGetLastError() == cudaSuccess;
    });
}
