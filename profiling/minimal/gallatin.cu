// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Gallatin by a pointer that kernels get: segments of 16 MiB, slices of 16 to 4096 bytes, its defaults.
#include <gallatin/allocators/gallatin.cuh>

#include <harness.hpp>

using allocator = gallatin::allocators::Gallatin<16ull * 1024 * 1024, 16ull, 4096ull>;

__global__ void allocate_blocks(allocator* heap, unsigned** blocks, counters* counts, unsigned n, unsigned bytes) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    auto* block = static_cast<unsigned*>(heap->malloc(bytes));
    if (block != nullptr) {
        *block = i;
    } else {
        atomicAdd(&counts->nulls, 1u);
    }
    blocks[i] = block;
}

__global__ void release_blocks(allocator* heap, unsigned** blocks, counters* counts, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || blocks[i] == nullptr) {
        return;
    }
    if (*blocks[i] != i) {
        atomicAdd(&counts->wrong, 1u);
    }
    heap->free(blocks[i]);
}

int main(int argc, char** argv) {
    allocator* heap = nullptr;
    const auto setup = [&](const arguments& args) {
        heap = allocator::generate_on_device(args.pool, 42, false);
        return cudaGetLastError() == cudaSuccess;
    };
    const int code = run(
        PROGRAM, argc, argv, setup,
        [&](unsigned grid, unsigned threads, unsigned** blocks, counters* counts, unsigned n, unsigned bytes) {
            allocate_blocks<<<grid, threads>>>(heap, blocks, counts, n, bytes);
        },
        [&](unsigned grid, unsigned threads, unsigned** blocks, counters* counts, unsigned n) {
            release_blocks<<<grid, threads>>>(heap, blocks, counts, n);
        });
    return code;
}
