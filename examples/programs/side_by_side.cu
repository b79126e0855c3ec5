// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A program of docs/programs.md: two kernels that must run at the same time, one of which waits for the other.
///
///     stream `taking`    take: each thread waits for a block in its slot ........ adds its value up, frees it
///     stream `giving`          give: each thread allocates a block, writes its number, puts it into its slot
///
///     give, thread i     *block = i;  fence;  atomicExch(slot i, block)
///     take, thread i     atomicExch(slot i, 0) until it is not 0;  fence;  reads *block
///
/// - The fences order the value before the address on one side, and the address before the value on the other.
/// - If `give` were loaded at its first launch, the loading could wait for `take`, which waits for `give`: hence
///   `preload`.
/// - Memory is allocated on the GPU before the launches: `cudaMalloc` could wait for `take` as well.
/// - The wait of `take` has an end: if `give` never comes, the program fails instead of hanging.
///
/// The program succeeds if the sum is that of all thread numbers. docs/programs.md shows the text between the marks,
/// and a test holds the two together.

// [program: side_by_side]
#include <cstdio>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

#if ORCHARD_CUDA_SOURCE
namespace orchard::examples::side_by_side {
// [program: side_by_side]

using slot = unsigned long long;  // the address of a block, or 0

/// Each thread waits for the block that another kernel puts into its slot, and frees it.
__global__ void take(orchard::heap_ref heap, slot* slots, unsigned* sum) {
    constexpr long long longest = 10'000'000'000;  // clock cycles, some 5 s: no kernel waits without a deadline
    const long long began = clock64();
    slot found = 0;
    while (found == 0 && clock64() - began < longest) {
        found = atomicExch(&slots[threadIdx.x], 0);
    }
    if (found != 0) {
        __threadfence();
        auto* block = reinterpret_cast<unsigned*>(found);
        atomicAdd(sum, *block);
        heap.free(block);
    }
}

__global__ void give(orchard::heap_ref heap, slot* slots) {
    auto* block = static_cast<unsigned*>(heap.malloc(100'000));
    if (block != nullptr) {
        *block = threadIdx.x;
        __threadfence();
        atomicExch(&slots[threadIdx.x], reinterpret_cast<slot>(block));
    }
}

int main() {
    orchard::options options;
    options.device = orchard::device_option::cuda;
    absl::StatusOr<orchard::heap> heap = orchard::heap::create(options);
    if (!heap.ok()) {
        std::fprintf(stderr, "%s\n", heap.status().ToString().c_str());
        return 1;
    }
    for (const auto& line : heap->warnings()) {
        std::fprintf(stderr, "warning: %s\n", line.c_str());
    }
    // Otherwise the first launch of `give` may wait until `take` has ended.
    if (const absl::Status loaded = heap->preload(take, give); !loaded.ok()) {
        std::fprintf(stderr, "%s\n", loaded.ToString().c_str());
        return 1;
    }
    constexpr unsigned threads = 64;
    slot* slots = nullptr;
    unsigned* sum = nullptr;
    cudaMalloc(&slots, threads * sizeof(slot));
    cudaMalloc(&sum, sizeof(*sum));
    cudaMemset(slots, 0, threads * sizeof(slot));
    cudaMemset(sum, 0, sizeof(*sum));
    cudaStream_t taking = nullptr;
    cudaStream_t giving = nullptr;
    cudaStreamCreateWithFlags(&taking, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&giving, cudaStreamNonBlocking);
    cudaDeviceSynchronize();

    take<<<1, threads, 0, taking>>>(heap->ref(), slots, sum);
    give<<<1, threads, 0, giving>>>(heap->ref(), slots);

    unsigned result = 0;
    cudaMemcpyAsync(&result, sum, sizeof(result), cudaMemcpyDeviceToHost, taking);
    cudaStreamSynchronize(taking);
    cudaStreamSynchronize(giving);
    const cudaError_t error = cudaGetLastError();
    std::printf("sum %u, %s\n", result, cudaGetErrorString(error));

    cudaStreamDestroy(taking);
    cudaStreamDestroy(giving);
    cudaFree(slots);
    cudaFree(sum);
    return error == cudaSuccess && result == threads * (threads - 1) / 2 ? 0 : 1;
}
// [end of part]
}  // namespace orchard::examples::side_by_side
#endif
