// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A managed heap grows while the thread that has launched the kernel is in a call of CUDA, by default loading. A
// blocking copy to pageable memory holds up `cudaMemPrefetchAsync` of all other threads until the kernel has ended. At
// most 128 MiB of managed memory. Exit codes: 0 right; 1 wrong; 77 there is no GPU, or it has no managed memory.

#include <cstdio>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>

namespace {

constexpr unsigned threads = 96;  // each allocates 1 MiB

__global__ void grow(orchard::heap_ref heap, unsigned* done) {
    auto* const p = static_cast<unsigned*>(heap.malloc(1u << 20));
    if (p != nullptr) {
        *p = 1;
        atomicAdd(done, *p);
    }
}
__global__ void other(unsigned* done) { atomicAdd(done + 1, 1u); }

/// What the host does while the kernel runs.
bool call(const char* what, unsigned* done) {
    unsigned seen = 0;
    switch (what[0]) {
        case 'c': return cudaMemcpy(&seen, done, sizeof(seen), cudaMemcpyDeviceToHost) == cudaSuccess;
        case 'l': other<<<1, 1>>>(done); return cudaGetLastError() == cudaSuccess;
        case 'm': return cudaMemset(done + 1, 0, sizeof(*done)) == cudaSuccess;
        default: return cudaDeviceSynchronize() == cudaSuccess;
    }
}

}  // namespace

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        return 77;
    }
    unsigned* done = nullptr;
    if (cudaMalloc(&done, 2 * sizeof(*done)) != cudaSuccess) {
        return 1;
    }
    for (const char* const what : {"copy", "launch", "memset", "wait"}) {
        orchard::options values;
        values.device = orchard::device_option::cuda;
        values.backing = orchard::backing_option::managed;
        values.capacity = 128ull << 20;
        values.request_timeout = absl::Seconds(5);
        auto heap = orchard::heap::create(values);
        if (!heap.ok()) {
            std::printf("%s\n", heap.status().ToString().c_str());
            return heap.status().code() == absl::StatusCode::kFailedPrecondition ? 77 : 1;
        }
        if (cudaMemset(done, 0, 2 * sizeof(*done)) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) {
            return 1;
        }
        grow<<<threads / 32, 32>>>(heap->ref(), done);
        const bool called = call(what, done);
        unsigned found = 0;
        const cudaError_t error = cudaDeviceSynchronize();
        const bool read = cudaMemcpy(&found, done, sizeof(found), cudaMemcpyDeviceToHost) == cudaSuccess;
        if (!called || error != cudaSuccess || !read || found != threads) {
            std::printf("%s: %u of %u blocks; %s\n", what, found, threads, cudaGetErrorString(error));
            return 1;
        }
    }
    cudaFree(done);
    std::printf("done\n");
    return 0;
}
