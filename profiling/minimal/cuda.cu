// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// CUDA's malloc and free in kernels. Linked with orchard::replace_malloc, the same source uses Orchard.
#include <harness.hpp>

__global__ void allocate_blocks(unsigned** blocks, counters* counts, unsigned n, unsigned bytes) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    auto* block = static_cast<unsigned*>(malloc(bytes));
    if (block != nullptr) {
        *block = i;
    } else {
        atomicAdd(&counts->nulls, 1u);
    }
    blocks[i] = block;
}

__global__ void release_blocks(unsigned** blocks, counters* counts, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || blocks[i] == nullptr) {
        return;
    }
    if (*blocks[i] != i) {
        atomicAdd(&counts->wrong, 1u);
    }
    free(blocks[i]);
}

int main(int argc, char** argv) {
    const auto setup = [](const arguments& args) {
        if (args.limit != 0) {
            CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, args.limit));
        }
        return true;
    };
    const int code = run(
        PROGRAM, argc, argv, setup,
        [&](unsigned grid, unsigned threads, unsigned** blocks, counters* counts, unsigned n, unsigned bytes) {
            allocate_blocks<<<grid, threads>>>(blocks, counts, n, bytes);
        },
        [&](unsigned grid, unsigned threads, unsigned** blocks, counters* counts, unsigned n) {
            release_blocks<<<grid, threads>>>(blocks, counts, n);
        });
    return code;
}
