// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A program in C++17 that passes a heap of the C interface to its kernels, which call every function of `heap_ref`.
// Built twice: with separable compilation, where the slow paths come from orchard::device, and without, where they are
// compiled here. Exit codes: 0 right; 1 wrong; 77 there is no GPU to run it on.

#include <orchard/orchard.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <orchard/device.cuh>

static_assert(__cplusplus < 202002L, "this source is to be compiled as C++17");

namespace {

constexpr unsigned threads = 4096;

struct object {
    explicit __device__ object(unsigned n) : number{n} {}
    unsigned number;
    object* next = nullptr;
};

/// Returns whether `p` is a block whose first and last of `bytes` bytes keep what is written to them.
__device__ bool works(void* block, unsigned long long bytes, unsigned char value) {
    auto* const p = static_cast<unsigned char*>(block);
    if (p == nullptr) {
        return false;
    }
    p[0] = p[bytes - 1] = value;
    return p[0] == value && p[bytes - 1] == value;
}

__global__ void blocks(orchard::heap_ref heap, unsigned* right) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long bytes = 1ull << i % 21;
    void* p = heap.malloc(bytes, i);
    bool ok = works(p, bytes, static_cast<unsigned char>(i)) && heap.usable_size(p) >= bytes && heap.owns(p);
    p = heap.realloc(p, 2 * bytes);
    ok = ok && works(p, 2 * bytes, static_cast<unsigned char>(i));
    heap.free(p);
    auto* const zero = static_cast<unsigned*>(heap.calloc(3, sizeof(unsigned)));
    ok = ok && zero != nullptr && zero[0] + zero[1] + zero[2] == 0;
    heap.free(zero);
    void* const aligned = heap.aligned_alloc(4096, 100);
    ok = ok && works(aligned, 100, 7) && reinterpret_cast<unsigned long long>(aligned) % 4096 == 0;
    heap.free(aligned);
    atomicAdd(right, ok ? 1u : 0u);
}

__global__ void objects(orchard::heap_ref heap, unsigned* right) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    auto* const a = heap.make<object>(i);
    auto* const b = new (heap) object(i + 1);
    orchard::lane_array<unsigned> numbers = heap.allocate_array<unsigned>(100 + i % 32);
    bool ok = a != nullptr && b != nullptr && a->number + 1 == b->number && numbers.size() == 100 + i % 32;
    unsigned sum = 0;
    for (unsigned n = 0; n < numbers.size(); ++n) {
        numbers[n] = n;
    }
    for (const unsigned n : numbers) {
        sum += n;
    }
    ok = ok && sum == numbers.size() * (numbers.size() - 1) / 2;
    heap.free_array(numbers);
    heap.destroy(a);
    heap.destroy(b);
    atomicAdd(right, ok ? 1u : 0u);
}

/// Gives a block of CUDA's own heap to `heap`, which counts the call and leaves the block alone.
__global__ void foreign(orchard::heap_ref heap, unsigned* right) {
    auto* const p = static_cast<unsigned*>(malloc(64));
    if (p != nullptr) {
        *p = threadIdx.x;
        heap.free(p);
        atomicAdd(right, *p == threadIdx.x && !heap.owns(p) ? 1u : 0u);
        free(p);
    }
}

/// Returns how many frees the heap has counted as invalid.
long invalid_frees(orchard_heap* heap) {
    const char* const statistics = orchard_heap_stats(heap);
    const char* const found = statistics == nullptr ? nullptr : std::strstr(statistics, "\"invalid_frees\"");
    return found == nullptr ? -1 : std::atol(std::strchr(found, ':') + 1);
}

/// Prints the library's last error, and returns the exit code of a failure.
int failed() {
    std::fprintf(stderr, "heap_ref: %s\n", orchard_last_error());
    return 1;
}

}  // namespace

int main() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        std::puts("heap_ref: no GPU, not run");
        return 77;
    }
    orchard_heap* heap = nullptr;
    orchard::heap_ref ref;
    if (orchard_heap_create("device=cuda", &heap) != 0 || orchard_heap_ref(heap, &ref, sizeof(ref)) != 0) {
        return failed();
    }
    if (orchard_heap_ref(heap, &ref, 1) == 0) {
        std::fprintf(stderr, "heap_ref: an object of another size is accepted\n");
        return 1;
    }
    unsigned* right = nullptr;
    cudaMalloc(&right, sizeof(*right));
    cudaMemset(right, 0, sizeof(*right));
    blocks<<<threads / 256, 256>>>(ref, right);
    objects<<<threads / 256, 256>>>(ref, right);
    foreign<<<1, 256>>>(ref, right);
    unsigned found = 0;
    cudaMemcpy(&found, right, sizeof(found), cudaMemcpyDeviceToHost);
    const cudaError_t error = cudaDeviceSynchronize();
    constexpr unsigned expected = 2 * threads + 256;
    if (error != cudaSuccess || found != expected || invalid_frees(heap) != 256) {
        std::fprintf(stderr, "heap_ref: %u of %u threads are right, %ld of 256 frees are invalid, %s\n", found,
                     expected, invalid_frees(heap), cudaGetErrorString(error));
        return 1;
    }
    if (orchard_heap_validate(heap) != 0) {
        return failed();
    }
    orchard_heap_destroy(heap);
    return 0;
}
