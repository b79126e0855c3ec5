// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A shared library with a kernel that allocates, which first_kernel.cu loads. It is linked with
// orchard::replace_malloc, too.

#include <heap_copy.cuh>

namespace {

__global__ void allocate(unsigned* right) {
    auto* const p = static_cast<unsigned*>(malloc(1 << 20));
    if (p != nullptr) {
        *p = 1;
        atomicAdd(right, *p);
        free(p);
    }
}

}  // namespace

/// Returns 1 if all threads of a kernel got a block.
extern "C" int allocate_in_library() {
    unsigned* right = nullptr;
    unsigned found = 0;
    cudaMalloc(&right, sizeof(*right));
    cudaMemset(right, 0, sizeof(*right));
    allocate<<<64, 256>>>(right);
    cudaMemcpy(&found, right, sizeof(found), cudaMemcpyDeviceToHost);
    return found == 64 * 256 && cudaGetLastError() == cudaSuccess ? 1 : 0;
}

/// Returns what the library can be asked to do with its copy of Orchard.
extern "C" const heap_copy* copy_of_library() { return &own_copy; }
