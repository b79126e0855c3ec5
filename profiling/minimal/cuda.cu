// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// CUDA's malloc and free in kernels. Linked with orchard::replace_malloc, the same source uses Orchard.
#include <harness.hpp>

struct cuda_heap {
    __device__ void* malloc(std::size_t bytes) const { return ::malloc(bytes); }
    __device__ void free(void* block) const { ::free(block); }
};

int main(int argc, char** argv) {
    return run<cuda_heap>(argc, argv, [](const arguments& args, cuda_heap&) {
        if (args.limit != 0) {
            CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, args.limit));
        }
        return true;
    });
}
