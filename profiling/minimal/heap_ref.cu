// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Orchard, C++20: a heap that the program owns, and its heap_ref as an argument of kernels.
#include <optional>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>

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
    std::optional<orchard::heap> heap;
    const auto setup = [&](const arguments&) {
        auto made = orchard::heap::create({.device = orchard::device_option::cuda});
        if (!made.ok()) {
            std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
            return false;
        }
        heap = std::move(*made);
        return true;
    };
    const int code = run(
        PROGRAM, argc, argv, setup,
        [&](unsigned grid, unsigned threads, unsigned** blocks, counters* counts, unsigned n, unsigned bytes) {
            allocate_blocks<<<grid, threads>>>(heap->ref(), blocks, counts, n, bytes);
        },
        [&](unsigned grid, unsigned threads, unsigned** blocks, counters* counts, unsigned n) {
            release_blocks<<<grid, threads>>>(heap->ref(), blocks, counts, n);
        });
    return code;
}
