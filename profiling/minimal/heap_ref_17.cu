// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Orchard, C++17: the heap is made through orchard.h, and kernels get its heap_ref.
#include <orchard/orchard.h>
#include <orchard/device.cuh>

#include <harness.hpp>

__global__ void allocate_blocks(orchard::heap_ref heap, unsigned** blocks, counters* counts, unsigned n,
                                unsigned bytes) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    auto* block = static_cast<unsigned*>(heap.malloc(bytes));
    if (block != nullptr) {
        *block = i;
    } else {
        atomicAdd(&counts->nulls, 1u);
    }
    blocks[i] = block;
}

__global__ void release_blocks(orchard::heap_ref heap, unsigned** blocks, counters* counts, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || blocks[i] == nullptr) {
        return;
    }
    if (*blocks[i] != i) {
        atomicAdd(&counts->wrong, 1u);
    }
    heap.free(blocks[i]);
}

int main(int argc, char** argv) {
    orchard_heap* owner = nullptr;
    orchard::heap_ref heap;
    const auto setup = [&](const arguments&) {
        if (orchard_heap_create("device=cuda", &owner) != ORCHARD_OK ||
            orchard_heap_ref(owner, &heap, sizeof(heap)) != ORCHARD_OK) {
            std::fprintf(stderr, "%s\n", orchard_last_error());
            return false;
        }
        return true;
    };
    const int code = run(
        PROGRAM, argc, argv, setup,
        [&](unsigned grid, unsigned threads, unsigned** blocks, counters* counts, unsigned n, unsigned bytes) {
            allocate_blocks<<<grid, threads>>>(heap, blocks, counts, n, bytes);
        },
        [&](unsigned grid, unsigned threads, unsigned** blocks, counters* counts, unsigned n) {
            release_blocks<<<grid, threads>>>(heap, blocks, counts, n);
        });
    orchard_heap_destroy(owner);
    return code;
}
