// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The first program of README.md: an ordinary CUDA program. The README shows the text between the marks. Here it is
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
    if (list != nullptr) {  // otherwise heap::last_failure() on the host says why
        list[length - 1] = length;
        heap.free(list);
    }
}

int main() {
    orchard::options options;
    options.device = orchard::device_option::cuda;  // an error where there is no GPU, not the emulated device
    absl::StatusOr<orchard::heap> heap = orchard::heap::create(options);
    if (!heap.ok()) {
        std::fprintf(stderr, "%s\n", heap.status().ToString().c_str());
        return 1;
    }
    make_lists<<<400, 256>>>(heap->ref());
    const cudaError_t error = cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorString(error));
    return error == cudaSuccess && !heap->last_failure() ? 0 : 1;
}
// [end of part]
}  // namespace orchard::examples::kernel
#endif
