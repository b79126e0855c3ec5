// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A program of docs/programs.md: a kernel of one stream allocates memory, and a kernel of another stream frees it.
///
///     stream `first`     produce: lists of 1 to 50 numbers --> event `produced`
///     stream `second`                            waits for the event --> consume: adds the lists up, frees them
///
/// - The event alone orders the two kernels: without it, `consume` could read a box that `produce` has not filled yet.
///   The heap needs no call in between, and neither kernel waits for the host.
/// - A thread frees the block of another thread, of another kernel.
/// - A box without a list (the heap had no memory) is null and is passed over; the sum then differs.
///
/// 25,000 threads make 500 lists of each length: the sum is 500 x 22,100. docs/programs.md shows the text between the
/// marks, and a test holds the two together.

// [program: streams]
#include <cstdio>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

#if ORCHARD_CUDA_SOURCE
namespace orchard::examples::streams {
// [program: streams]

__global__ void produce(orchard::heap_ref heap, int** boxes) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const int count = 1 + static_cast<int>(i % 50);
    auto* items = static_cast<int*>(heap.malloc((1 + count) * sizeof(int)));
    if (items != nullptr) {
        items[0] = count;
        for (int n = 1; n <= count; ++n) {
            items[n] = n;
        }
    }
    boxes[i] = items;
}

__global__ void consume(orchard::heap_ref heap, int* const* boxes, unsigned long long* sum) {
    const int* items = boxes[blockIdx.x * blockDim.x + threadIdx.x];
    if (items == nullptr) {
        return;
    }
    unsigned long long mine = 0;
    for (int n = 1; n <= items[0]; ++n) {
        mine += items[n];
    }
    atomicAdd(sum, mine);
    heap.free(const_cast<int*>(items));
}

int main() {
    orchard::options options;
    options.device = orchard::device_option::cuda;
    absl::StatusOr<orchard::heap> heap = orchard::heap::create(options);
    if (!heap.ok()) {
        std::fprintf(stderr, "%s\n", heap.status().ToString().c_str());
        return 1;
    }
    constexpr unsigned blocks = 100;
    constexpr unsigned threads = 250;
    int** boxes = nullptr;
    unsigned long long* sum = nullptr;
    cudaMalloc(&boxes, blocks * threads * sizeof(int*));
    cudaMalloc(&sum, sizeof(*sum));
    cudaMemset(sum, 0, sizeof(*sum));
    cudaStream_t first = nullptr;
    cudaStream_t second = nullptr;
    cudaEvent_t produced = nullptr;
    cudaStreamCreate(&first);
    cudaStreamCreate(&second);
    cudaEventCreateWithFlags(&produced, cudaEventDisableTiming);

    produce<<<blocks, threads, 0, first>>>(heap->ref(), boxes);
    cudaEventRecord(produced, first);
    cudaStreamWaitEvent(second, produced);
    consume<<<blocks, threads, 0, second>>>(heap->ref(), boxes, sum);

    unsigned long long result = 0;
    cudaMemcpyAsync(&result, sum, sizeof(result), cudaMemcpyDeviceToHost, second);
    cudaStreamSynchronize(second);
    const cudaError_t error = cudaGetLastError();
    std::printf("sum %llu, %s\n", result, cudaGetErrorString(error));

    cudaEventDestroy(produced);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    cudaFree(boxes);
    cudaFree(sum);
    return error == cudaSuccess && result == 500 * 22'100ull ? 0 : 1;
}
// [end of part]
}  // namespace orchard::examples::streams
#endif
