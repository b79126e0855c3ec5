// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Loads `__global__` functions of the application, for `heap::preload`. CUDA loads a kernel at its first launch unless
/// the environment says otherwise, and that may wait until all running kernels have ended.

#include "runtime/heap/kernel_loading.hpp"

#include "runtime/heap/heap.hpp"

namespace orchard {

absl::Status heap::load(std::span<const void* const> kernels) { return detail::load_kernels(executor(), kernels); }

}  // namespace orchard

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include <cstddef>

#include "absl/strings/str_format.h"
#include "device/simt/current_device.hpp"

namespace orchard::detail {
namespace {

/// Returns the error for the kernel at `index`, with the runtime's text and, if the function is no kernel for this GPU,
/// the remedy: FailedPrecondition in that case, otherwise Internal. Positions are counted from 1, as the caller wrote
/// them.
absl::Status explain(cudaError_t error, std::size_t index, std::size_t count) {
    const std::string what = absl::StrFormat("preload: kernel %d of %d: CUDA: cudaFuncGetAttributes: %s: %s", index + 1,
                                             count, cudaGetErrorName(error), cudaGetErrorString(error));
    if (error != cudaErrorInvalidDeviceFunction && error != cudaErrorInvalidResourceHandle) {
        return absl::InternalError(what);
    }
    return absl::FailedPreconditionError(
        absl::StrFormat("%s; give a __global__ function that is compiled for this GPU (nvcc -arch) and linked with the "
                        "same CUDA runtime as Orchard",
                        what));
}

}  // namespace

/// Kernels before one that fails stay loaded.
absl::Status load_kernels(const simt::executor& on, std::span<const void* const> kernels) {
    if (on.kind != simt::device_kind::cuda) {
        return absl::OkStatus();
    }
    // Kernels are loaded for each GPU by itself.
    const simt::current_device here(on.device);
    if (here.error() != cudaSuccess) {
        return explain(here.error(), 0, kernels.size());
    }
    for (std::size_t i = 0; i < kernels.size(); ++i) {
        // To ask for a kernel's attributes loads it, and launches nothing.
        cudaFuncAttributes attributes{};
        if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernels[i]); error != cudaSuccess) {
            (void)cudaGetLastError();  // the error is reported here and must not be reported again by the next call
            // The first error ends the list, as `heap::preload` documents.
            return explain(error, i, kernels.size());
        }
    }
    return absl::OkStatus();
}

}  // namespace orchard::detail

#else

namespace orchard::detail {

// A build without CUDA has no kernels to load.
absl::Status load_kernels(const simt::executor&, std::span<const void* const>) { return absl::OkStatus(); }

}  // namespace orchard::detail

#endif
