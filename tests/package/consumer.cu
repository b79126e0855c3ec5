// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A user's CUDA program, compiled without any option of the compiler: each thread allocates a block of another size,
// from 1 B to 1 MiB, writes its first and last byte, and a second kernel checks and frees the blocks. Exit codes: 0
// right; 1 wrong; 77 there is no GPU to run it on.

#include <cstdio>
#include <orchard/device.cuh>
#include <orchard/graph.cuh>
#include <orchard/heap.hpp>

namespace {

constexpr unsigned threads = 4096;

__device__ unsigned long long size_of(unsigned i) { return (1ull << i % 21) - (i % 21 == 0 ? 0 : i % 3 % 2); }

__global__ void allocate(orchard::heap_ref heap, unsigned char** blocks) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    auto* const p = static_cast<unsigned char*>(heap.malloc(size_of(i)));
    if (p != nullptr) {
        p[0] = p[size_of(i) - 1] = static_cast<unsigned char>(i);
    }
    blocks[i] = p;
}

__global__ void check_and_free(orchard::heap_ref heap, unsigned char** blocks, unsigned* right) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned char* const p = blocks[i];
    if (p != nullptr && p[0] == static_cast<unsigned char>(i) && p[size_of(i) - 1] == static_cast<unsigned char>(i)) {
        atomicAdd(right, 1u);
    }
    heap.free(blocks[i]);
}

}  // namespace

int main() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        std::puts("consumer: no GPU, not run");
        return 77;
    }
    auto heap = orchard::heap::create({.device = orchard::device_option::cuda});
    if (!heap.ok()) {
        std::fprintf(stderr, "consumer: %s\n", heap.status().ToString().c_str());
        return 1;
    }
    unsigned char** blocks = nullptr;
    unsigned* count = nullptr;
    unsigned right = 0;
    cudaMalloc(&blocks, threads * sizeof(*blocks));
    cudaMalloc(&count, sizeof(*count));
    cudaMemset(count, 0, sizeof(*count));
    allocate<<<threads / 256, 256>>>(heap->ref(), blocks);
    check_and_free<<<threads / 256, 256>>>(heap->ref(), blocks, count);
    cudaMemcpy(&right, count, sizeof(right), cudaMemcpyDeviceToHost);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess || right != threads || !heap->validate().ok()) {
        std::fprintf(stderr, "consumer: %u of %u blocks are right, %s, %s\n", right, threads, cudaGetErrorString(error),
                     heap->validate().ToString().c_str());
        return 1;
    }
    return 0;
}
