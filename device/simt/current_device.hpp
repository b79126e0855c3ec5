// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The GPU on which CUDA calls of a thread act. Only for builds with CUDA.

#include <cuda_runtime_api.h>

namespace orchard::simt {

/// Makes a GPU current for the calling thread, and restores the previous one at the end, since the thread may belong to
/// the application. A negative number leaves the current GPU as it is. If the GPU cannot be made current, the previous
/// one stays so, and `error` says why; the caller must not go on then.
class current_device {
public:
    explicit current_device(int device) : device_{device}, before_{device} {
        if (device_ < 0) {
            return;
        }
        error_ = cudaGetDevice(&before_);
        if (error_ == cudaSuccess && before_ != device_) {
            error_ = cudaSetDevice(device_);
        }
        if (error_ != cudaSuccess) {
            before_ = device_;         // there is nothing to restore
            (void)cudaGetLastError();  // otherwise the program's next query would return this error
        }
    }
    ~current_device() {
        if (before_ != device_) {
            cudaSetDevice(before_);
        }
    }
    current_device(const current_device&) = delete;
    current_device& operator=(const current_device&) = delete;

    /// Returns why the GPU is not current, or cudaSuccess.
    [[nodiscard]] cudaError_t error() const { return error_; }

private:
    // The GPU asked for, and the one to be restored. They are equal if there is nothing to restore.
    int device_;
    int before_;
    cudaError_t error_ = cudaSuccess;
};

}  // namespace orchard::simt
