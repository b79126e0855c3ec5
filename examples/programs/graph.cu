// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A program of docs/programs.md: kernels of a graph use a heap; the graph is captured once and runs often.
///
///     captured    make --> release                  the `heap_ref` is a kernel argument, copied into the graph
///     10 runs     make, release, make, release, ... each run allocates and frees one row a thread
///
/// - The addresses of rows may differ from run to run; only the array `rows`, plain device memory, has a fixed place.
/// - A capture of any mode leaves the heap's own threads alone.
/// - The graph holds the `heap_ref`, not the heap. The graph is destroyed first; the heap must outlive its last run.
///
/// The program succeeds if every thread of every run got its row. docs/programs.md shows the text between the marks,
/// and a test holds the two together.

// [program: graph]
#include <cstdio>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

#if ORCHARD_CUDA_SOURCE
namespace orchard::examples::graph {
// [program: graph]

__global__ void make(orchard::heap_ref heap, double** rows) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    rows[i] = static_cast<double*>(heap.malloc((1 + i % 200) * sizeof(double)));
}

__global__ void release(orchard::heap_ref heap, double** rows, unsigned* made) {
    double* row = rows[blockIdx.x * blockDim.x + threadIdx.x];
    if (row != nullptr) {
        atomicAdd(made, 1u);
        heap.free(row);
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
    constexpr unsigned blocks = 64;
    constexpr unsigned threads = 256;
    constexpr unsigned runs = 10;
    double** rows = nullptr;
    unsigned* made = nullptr;
    cudaMalloc(&rows, blocks * threads * sizeof(double*));
    cudaMalloc(&made, sizeof(*made));
    cudaMemset(made, 0, sizeof(*made));
    cudaStream_t stream = nullptr;
    cudaStreamCreate(&stream);

    cudaGraph_t graph = nullptr;
    cudaGraphExec_t instance = nullptr;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    make<<<blocks, threads, 0, stream>>>(heap->ref(), rows);
    release<<<blocks, threads, 0, stream>>>(heap->ref(), rows, made);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&instance, graph, 0);

    for (unsigned run = 0; run < runs; ++run) {
        cudaGraphLaunch(instance, stream);
    }
    unsigned result = 0;
    cudaMemcpyAsync(&result, made, sizeof(result), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    const cudaError_t error = cudaGetLastError();
    std::printf("%u rows, %s\n", result, cudaGetErrorString(error));

    cudaGraphExecDestroy(instance);  // the heap is destroyed after the last run of the graph
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(rows);
    cudaFree(made);
    return error == cudaSuccess && result == runs * blocks * threads ? 0 : 1;
}
// [end of part]
}  // namespace orchard::examples::graph
#endif
