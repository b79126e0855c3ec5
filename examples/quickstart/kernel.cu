// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The first program of README.md: an ordinary CUDA program. The README shows what stands between the marks; here it is
/// one function of the program `orchard`, which runs it (`orchard programs kernel`).

// [program: kernel]
#include <cstdint>
#include <cstdio>

#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

#if ORCHARD_CUDA_SOURCE
namespace orchard::examples::kernel {
// [program: kernel]

/// Every thread makes a list of its own, uses it and gives it back.
__global__ void make_lists(orchard::heap_ref heap) {
    const std::uint32_t length = 4 + threadIdx.x % 61;
    auto* list = static_cast<std::uint32_t*>(heap.malloc(length * sizeof(std::uint32_t)));
    if (list == nullptr) {
        return;  // heap::last_failure() on the host says why
    }
    for (std::uint32_t i = 0; i < length; ++i) {
        list[i] = i;
    }
    heap.free(list);
}

int main() {
    orchard::options options;
    options.device = orchard::device_option::cuda;  // no emulated device where there is no GPU
    absl::StatusOr<orchard::heap> heap = orchard::heap::create(options);
    if (!heap.ok()) {
        std::fprintf(stderr, "%s\n", heap.status().ToString().c_str());
        return 1;
    }
    make_lists<<<400, 256>>>(heap->ref());
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) {
        error = cudaDeviceSynchronize();
    }
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        return 1;
    }
    if (const auto failed = heap->last_failure()) {
        std::fprintf(stderr, "%s\n", orchard::to_text(*failed).c_str());
        return 1;
    }
    return 0;
}
// [end of part]
}  // namespace orchard::examples::kernel
#endif
