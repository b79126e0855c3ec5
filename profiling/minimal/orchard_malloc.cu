// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Orchard's functions of orchard.h in kernels, in the default heap.
#include <orchard/orchard.h>

#include <harness.hpp>

__global__ void allocate_blocks(unsigned** blocks, counters* counts, unsigned n, unsigned bytes) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    auto* block = static_cast<unsigned*>(orchard_malloc(bytes));
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
    orchard_free(blocks[i]);
}

int main(int argc, char** argv) {
    const auto setup = [](const arguments&) {
        if (orchard_init("device=cuda") != ORCHARD_OK) {
            std::fprintf(stderr, "%s\n", orchard_last_error());
            return false;
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
