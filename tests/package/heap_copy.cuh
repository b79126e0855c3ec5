// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

// One copy of Orchard: the program first_kernel has one, and its shared library has another. Each source that includes
// this header has kernels of its own, whose malloc and free are those of the copy that it is linked with.

#include <orchard/orchard.h>
#include <cstdlib>
#include <cstring>
#include <string>

/// What one side can be asked to do with its copy. The functions return false, null or -1 if a call failed.
struct heap_copy {
    /// Returns a block of `words_of_block` words that are all `value`.
    unsigned* (*make)(unsigned value);
    /// Frees a block in a kernel.
    bool (*free)(unsigned* block);
    /// Returns whether all words of a block are `value`.
    bool (*holds)(const unsigned* block, unsigned value);
    /// Allocates, writes and frees 16,384 blocks of the same size.
    bool (*churn)();
    /// Returns a number of the default heap's statistics.
    long (*statistic)(const char* name);
    /// Checks the structures of the default heap.
    bool (*validate)();
};

namespace {

constexpr unsigned words_of_block = 256;

__global__ void make_kernel(unsigned** made, unsigned value) {
    auto* const block = static_cast<unsigned*>(malloc(words_of_block * sizeof(unsigned)));
    for (unsigned i = 0; block != nullptr && i < words_of_block; ++i) {
        block[i] = value;
    }
    *made = block;
}

__global__ void free_kernel(unsigned* block) { free(block); }

__global__ void holds_kernel(const unsigned* block, unsigned value, unsigned* wrong) {
    for (unsigned i = 0; i < words_of_block; ++i) {
        *wrong += block[i] != value ? 1 : 0;
    }
}

__global__ void churn_kernel(unsigned* wrong) {
    auto* const block = static_cast<volatile unsigned*>(malloc(words_of_block * sizeof(unsigned)));
    const unsigned mine = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned i = 0; block != nullptr && i < words_of_block; ++i) {
        block[i] = mine;
    }
    for (unsigned i = 0; block != nullptr && i < words_of_block; ++i) {
        if (block[i] != mine) {
            atomicAdd(wrong, 1u);
        }
    }
    if (block == nullptr) {
        atomicAdd(wrong, 1u);
    }
    free(const_cast<unsigned*>(block));
}

/// Runs `launch` with the address of a zeroed `T` of the GPU, and copies what the kernel wrote there to `result`.
template <class T, class Launch>
bool run_for(T* result, Launch launch) {
    T* on_device = nullptr;
    if (cudaMalloc(&on_device, sizeof(T)) != cudaSuccess || cudaMemset(on_device, 0, sizeof(T)) != cudaSuccess) {
        return false;
    }
    launch(on_device);
    const bool launched = cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess &&
                          cudaMemcpy(result, on_device, sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess;
    cudaFree(on_device);
    return launched;
}

unsigned* make_block(unsigned value) {
    unsigned* block = nullptr;
    return run_for(&block, [&](unsigned** made) { make_kernel<<<1, 1>>>(made, value); }) ? block : nullptr;
}

bool free_block(unsigned* block) {
    unsigned ignored = 0;
    return run_for(&ignored, [&](unsigned*) { free_kernel<<<1, 1>>>(block); });
}

bool block_holds(const unsigned* block, unsigned value) {
    unsigned found = 0;
    return run_for(&found, [&](unsigned* wrong) { holds_kernel<<<1, 1>>>(block, value, wrong); }) && found == 0;
}

bool churn_blocks() {
    unsigned found = 0;
    return run_for(&found, [](unsigned* wrong) { churn_kernel<<<64, 256>>>(wrong); }) && found == 0;
}

long statistic_of_heap(const char* name) {
    const char* const text = orchard_heap_stats(orchard_default_heap());
    const char* const found = text == nullptr ? nullptr : std::strstr(text, ('"' + std::string(name) + '"').c_str());
    return found == nullptr ? -1 : std::atol(std::strchr(found, ':') + 1);
}

bool heap_is_valid() { return orchard_heap_validate(orchard_default_heap()) == ORCHARD_OK; }

/// The copy that this source is linked with.
constexpr heap_copy own_copy = {make_block, free_block, block_holds, churn_blocks, statistic_of_heap, heap_is_valid};

}  // namespace
