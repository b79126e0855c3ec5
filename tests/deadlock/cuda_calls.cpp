// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "tests/deadlock/cuda_calls.hpp"

#include <cuda_runtime_api.h>

#include "uvm/cuda_memory.hpp"

namespace orchard::test {

absl::StatusOr<void*> call_malloc(std::uint64_t bytes) {
    void* memory = nullptr;
    absl::Status status = detail::to_status(cudaMalloc(&memory, bytes), "cudaMalloc");
    if (!status.ok()) {
        return status;
    }
    return memory;
}

absl::Status call_free(void* memory) { return detail::to_status(cudaFree(memory), "cudaFree"); }

absl::Status call_memcpy(void* to, const void* from, std::uint64_t bytes) {
    return detail::to_status(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

}  // namespace orchard::test
