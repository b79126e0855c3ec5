// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A use after free across kernels, for compute-sanitizer --nvtx=yes: one kernel allocates, one frees every second
// block, and one reads blocks. Between them the host tells the tool which blocks are live.
//
//     compute-sanitizer --nvtx=yes --error-exitcode 9 nvtx_use_after_free fixed right    exit code 0
//     compute-sanitizer --nvtx=yes --error-exitcode 9 nvtx_use_after_free fixed wrong    9: freed blocks are read
//
// Exit codes without the tool's: 0 done, 1 wrong, 77 there is no GPU, or no tool listens.

#include <cstdio>
#include <cstring>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>
#include <orchard/phase.hpp>

namespace {

constexpr unsigned blocks = 256;

/// Sizes of pages of several classes, and of lanes of a chunk.
__device__ unsigned long long bytes_of(unsigned i) { return i % 8 == 7 ? 700'000 : 16u << i % 8; }

__global__ void allocate_all(orchard::heap_ref heap, unsigned** all) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    all[i] = static_cast<unsigned*>(heap.malloc(bytes_of(i)));
    if (all[i] != nullptr) {
        *all[i] = i;
    }
}

/// Every second block; the pointers stay.
__global__ void free_odd(orchard::heap_ref heap, unsigned* const* all) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 2 == 1) {
        heap.free(all[i]);
    }
}

/// Reads the blocks with even numbers, or all.
__global__ void read_all(unsigned* const* all, unsigned step, unsigned* sum) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % step == 0) {
        atomicAdd(sum, *all[i]);
    }
}

bool is_done(const char* what) {
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        std::printf("%s: %s\n", what, cudaGetErrorString(error));
    }
    return error == cudaSuccess;
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::printf("usage: nvtx_use_after_free elastic|fixed right|wrong\n");
        return 1;
    }
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        return 77;
    }
    orchard::options values;
    values.device = orchard::device_option::cuda;
    values.capacity = 256ull << 20;
    values.backing =
        std::strcmp(words[1], "fixed") == 0 ? orchard::backing_option::fixed : orchard::backing_option::elastic;
    auto heap = orchard::heap::create(values);
    if (!heap.ok()) {
        std::printf("%s\n", heap.status().ToString().c_str());
        return 1;
    }
    using orchard::nvtx::phase;
    unsigned** all = nullptr;
    unsigned* sum = nullptr;
    if (cudaMalloc(&all, blocks * sizeof(*all)) != cudaSuccess || cudaMalloc(&sum, sizeof(*sum)) != cudaSuccess ||
        cudaMemset(sum, 0, sizeof(*sum)) != cudaSuccess) {
        return 1;
    }
    {
        const phase now(phase::allocate, blocks);
        allocate_all<<<blocks / 64, 64>>>(heap->ref(), all);
        if (!is_done("allocate")) {
            return 1;
        }
    }
    const auto marked = heap->mark_live_blocks();
    if (!marked.ok() || *marked == 0) {
        std::printf("%s\n", marked.ok() ? "no tool listens" : marked.status().ToString().c_str());
        return marked.ok() ? 77 : 1;
    }
    std::printf("%llu blocks are live\n", static_cast<unsigned long long>(*marked));
    {
        const phase now(phase::compute, blocks);
        read_all<<<blocks / 64, 64>>>(all, 1, sum);
        if (!is_done("read all")) {
            return 1;
        }
    }
    {
        const phase now(phase::free, blocks / 2);
        free_odd<<<blocks / 64, 64>>>(heap->ref(), all);
        if (!is_done("free")) {
            return 1;
        }
    }
    const auto left = heap->mark_live_blocks();
    if (!left.ok()) {
        std::printf("%s\n", left.status().ToString().c_str());
        return 1;
    }
    std::printf("%llu blocks are live\n", static_cast<unsigned long long>(*left));
    {
        const phase now(phase::compute, blocks / 2);
        read_all<<<blocks / 64, 64>>>(all, std::strcmp(words[2], "wrong") == 0 ? 1 : 2, sum);
        if (!is_done("read")) {
            return 1;
        }
    }
    heap->unmark_live_blocks();
    {
        // New blocks are in nobody's marks, and may be used all the same.
        const phase now(phase::allocate, blocks);
        allocate_all<<<blocks / 64, 64>>>(heap->ref(), all);
        read_all<<<blocks / 64, 64>>>(all, 1, sum);
        if (!is_done("allocate again")) {
            return 1;
        }
    }
    cudaFree(all);
    cudaFree(sum);
    std::printf("done\n");
    return 0;
}
