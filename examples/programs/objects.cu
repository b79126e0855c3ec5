// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A program of docs/programs.md: threads make objects of two classes, and another kernel uses and destroys them
/// through their base class.
///
/// - `make` and `new (heap)` construct an object, `destroy` calls its destructor and frees it. Each object is destroyed
///   by another thread than the one that made it.
/// - Both kernels run on the GPU: an object with virtual functions can be used only where it was made, since it points
///   to the functions of that side.
/// - `make` returns null if the heap has no memory; the sum then differs.
///
/// 64,000 threads, half of them with squares of side 2, half with rectangles of 1 x 3: the sum is 32,000 x 4 + 32,000 x
/// 3. docs/programs.md shows the text between the marks, and a test holds the two together.

// [program: objects]
#include <cstdio>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

#if ORCHARD_CUDA_SOURCE
namespace orchard::examples::objects {
// [program: objects]

struct shape {
    __device__ virtual ~shape() {}
    __device__ virtual unsigned area() const = 0;
};

struct square : shape {
    unsigned side;
    __device__ explicit square(unsigned s) : side{s} {}
    __device__ unsigned area() const override { return side * side; }
};

struct rectangle : shape {
    unsigned width;
    unsigned height;
    __device__ rectangle(unsigned w, unsigned h) : width{w}, height{h} {}
    __device__ unsigned area() const override { return width * height; }
};

__global__ void make(orchard::heap_ref heap, shape** shapes) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 2 == 0) {
        shapes[i] = heap.make<rectangle>(1u, 3u);
    } else {
        shapes[i] = new (heap) square(2);  // the same as make<square>(2)
    }
}

__global__ void add_up(orchard::heap_ref heap, shape** shapes, unsigned long long* sum) {
    const unsigned i = gridDim.x * blockDim.x - 1 - (blockIdx.x * blockDim.x + threadIdx.x);
    if (shapes[i] != nullptr) {
        atomicAdd(sum, static_cast<unsigned long long>(shapes[i]->area()));
    }
    heap.destroy(shapes[i]);
}

int main() {
    auto heap = orchard::heap::create({.device = orchard::device_option::cuda});
    if (!heap.ok()) {
        std::fprintf(stderr, "%s\n", heap.status().ToString().c_str());
        return 1;
    }
    constexpr unsigned blocks = 250;
    constexpr unsigned threads = 256;
    shape** shapes = nullptr;
    unsigned long long* sum = nullptr;
    cudaMalloc(&shapes, blocks * threads * sizeof(shape*));
    cudaMalloc(&sum, sizeof(*sum));
    cudaMemset(sum, 0, sizeof(*sum));

    make<<<blocks, threads>>>(heap->ref(), shapes);
    add_up<<<blocks, threads>>>(heap->ref(), shapes, sum);

    unsigned long long result = 0;
    cudaMemcpy(&result, sum, sizeof(result), cudaMemcpyDeviceToHost);
    const cudaError_t error = cudaGetLastError();
    std::printf("sum %llu, %s\n", result, cudaGetErrorString(error));
    cudaFree(shapes);
    cudaFree(sum);
    return error == cudaSuccess && result == 32'000ull * 4 + 32'000ull * 3 ? 0 : 1;
}
// [end of part]
}  // namespace orchard::examples::objects
#endif
