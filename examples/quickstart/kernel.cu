// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The program of README.md: an ordinary CUDA program. The README shows the text between the marks, and a test holds
/// the two together. Here it is one function of the program `orchard`, which runs it (`orchard programs kernel`).
///
///     host      creates a heap on the GPU, launches 400 blocks of 256 threads, waits
///     kernel    each thread allocates a list whose length it alone knows, writes into it, and frees it

// [program: kernel]
#include <orchard/device.cuh>
#include <orchard/heap.hpp>
// [end of part]

#if ORCHARD_CUDA_SOURCE
namespace orchard::examples::kernel {
// [program: kernel]

__global__ void make_lists(orchard::heap_ref heap) {
    auto* list = static_cast<int*>(heap.malloc((4 + threadIdx.x) * sizeof(int)));
    if (list != nullptr) {  // otherwise heap::last_failure() on the host says why
        list[threadIdx.x] = 1;
        heap.free(list);
    }
}

int main() {
    auto heap = orchard::heap::create({.device = orchard::device_option::cuda});
    if (!heap.ok()) {  // heap.status() says why
        return 1;
    }
    make_lists<<<400, 256>>>(heap->ref());
    return cudaDeviceSynchronize();
}
// [end of part]
}  // namespace orchard::examples::kernel
#endif
