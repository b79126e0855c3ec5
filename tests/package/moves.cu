// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A program whose data is twice its device budget, and whose kernels use a part of it: after `orchard_heap_migrate`
// that part is on the device, at the same addresses. C++17, the C interface, `<<<>>>`, CUDA's default loading. Exit
// codes: 0 right; 1 wrong; 77 there is no GPU to run it on.

#include <orchard/orchard.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <orchard/device.cuh>

namespace {

constexpr unsigned threads = 256;
constexpr unsigned elements = 1u << 18;  // 1 MiB a thread, 256 MiB in all

using array = orchard::lane_array<unsigned>;

__global__ void make(orchard::heap_ref heap, array* arrays, unsigned* nulls) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    arrays[i] = heap.allocate_array<unsigned>(elements, orchard::layout::linear());
    if (arrays[i].empty()) {
        atomicAdd(nulls, 1u);
    }
    for (unsigned n = 0; n < arrays[i].size(); ++n) {
        arrays[i][n] = n ^ i;
    }
}

/// Every eighth thread's array is read, by all threads of a block.
__global__ void use(orchard::heap_ref heap, const array* arrays, unsigned* wrong) {
    const unsigned owner = blockIdx.x * 8;
    const orchard::sampled_array<unsigned> a(arrays[owner], heap);
    unsigned bad = 0;
    for (unsigned n = threadIdx.x; n < elements; n += blockDim.x) {
        bad += a[n] != (n ^ owner) ? 1 : 0;
    }
    if (bad != 0) {
        atomicAdd(wrong, bad);
    }
}

__global__ void check_and_free(orchard::heap_ref heap, const array* arrays, unsigned* wrong) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned bad = 0;
    for (unsigned n = 0; n < elements; n += 1021) {
        bad += arrays[i][n] != (n ^ i) ? 1 : 0;
    }
    if (bad != 0) {
        atomicAdd(wrong, bad);
    }
    heap.free_array(arrays[i]);
}

/// Returns a number of the heap's statistics.
unsigned long long statistic(orchard_heap* heap, const char* name) {
    const char* const all = orchard_heap_stats(heap);
    const char* const found = all != nullptr ? std::strstr(all, name) : nullptr;
    return found != nullptr ? std::strtoull(found + std::strlen(name) + 2, nullptr, 10) : ~0ull;
}

int fail(const char* what) {
    std::fprintf(stderr, "%s: %s; %s\n", what, orchard_last_error(), cudaGetErrorString(cudaGetLastError()));
    return 1;
}

}  // namespace

int main() {
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
        std::puts("there is no GPU");
        return 77;
    }
    orchard_heap* heap = nullptr;
    if (orchard_heap_create("device=cuda backing=elastic capacity=128MiB host_budget=256MiB move_unit=2MiB", &heap) !=
        0) {
        return fail("create");
    }
    alignas(orchard::heap_ref) unsigned char bytes[sizeof(orchard::heap_ref)];
    if (orchard_heap_ref(heap, bytes, sizeof(bytes)) != 0) {
        return fail("ref");
    }
    orchard::heap_ref ref;
    std::memcpy(static_cast<void*>(&ref), bytes, sizeof(ref));
    array* arrays = nullptr;
    unsigned* counts = nullptr;
    cudaStream_t stream{};
    if (cudaMalloc(&arrays, threads * sizeof(array)) != cudaSuccess || cudaMalloc(&counts, 8) != cudaSuccess ||
        cudaMemset(counts, 0, 8) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess) {
        return fail("CUDA");
    }
    make<<<threads / 32, 32, 0, stream>>>(ref, arrays, counts);
    const unsigned long long whole = threads / 8 * (elements * sizeof(unsigned));
    unsigned long long before = 0;
    for (int pass = 0; pass < 4; ++pass) {
        use<<<threads / 8, 256, 0, stream>>>(ref, arrays, counts + 1);
        if (orchard_heap_migrate(heap, stream) != 0) {
            return fail("migrate");
        }
        const unsigned long long moved = statistic(heap, "\"moved_to_device_bytes\"");
        std::printf("pass %d: %llu MiB moved to the device so far\n", pass, moved >> 20);
        // Some of it was there from the start. After two calls all of it is, and stays.
        if (moved > 4 * whole || (pass >= 2 && moved != before)) {
            return fail("the working set does not stay on the device");
        }
        before = moved;
    }
    if (before == 0) {
        return fail("nothing has moved");
    }
    check_and_free<<<threads / 32, 32, 0, stream>>>(ref, arrays, counts + 1);
    unsigned found[2] = {1, 1};
    if (cudaStreamSynchronize(stream) != cudaSuccess ||
        cudaMemcpy(found, counts, 8, cudaMemcpyDefault) != cudaSuccess) {
        return fail("kernels");
    }
    const bool valid = orchard_heap_validate(heap) == 0;
    std::printf("nulls %u, wrong values %u\n", found[0], found[1]);
    const bool right = found[0] == 0 && found[1] == 0 && valid;
    orchard_heap_destroy(heap);
    return right ? 0 : fail("wrong");
}
