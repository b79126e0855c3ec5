// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// CUDA's own `malloc` and `free` in kernels, and the size of their heap. On a GPU alone: in kernels of the emulated
/// device these names are the C library's.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/published/xmalloc/system_malloc.cuh"
#include "device/simt/launch.cuh"
#if ORCHARD_CUDA_SOURCE
#include <cuda_runtime_api.h>
#endif

namespace orchard::arena {

struct cuda_malloc_owner {
    /// Sets the size of the heap, which stays for the process.
    static absl::StatusOr<cuda_malloc_owner> create(const simt::executor&, [[maybe_unused]] std::uint64_t bytes) {
#if ORCHARD_CUDA_SOURCE
        std::size_t now = 0;
        cudaError_t error = cudaDeviceGetLimit(&now, cudaLimitMallocHeapSize);
        if (error == cudaSuccess && now != bytes) {  // it cannot be set again once a kernel has used the heap
            error = cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes);
        }
        if (error != cudaSuccess) {
            return absl::InternalError(std::string("cudaLimitMallocHeapSize: ") + cudaGetErrorString(error));
        }
#endif
        return cuda_malloc_owner();
    }
    [[nodiscard]] static system_malloc_ref ref() { return {}; }
    static absl::Status initialise() { return absl::UnimplementedError("CUDA's heap cannot be emptied"); }
};

}  // namespace orchard::arena
