// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The GPU on which CUDA calls of a thread act. Only for builds with CUDA.

#include <cuda_runtime_api.h>

namespace orchard::simt {

/// Allows the calling thread calls that CUDA forbids while a stream is captured into a graph, such as allocations: the
/// library makes none on a captured stream. Otherwise such a call fails, and ends the capture of the application. The
/// mode that it returns is the thread's previous one.
inline cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode) {
    if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) {
        (void)cudaGetLastError();
    }
    return mode;
}

/// Makes a GPU current for the calling thread, and restores the previous one at the end, since the thread may belong to
/// the application. A negative number leaves the current GPU as it is. If the GPU cannot be made current, the previous
/// one stays so, and `error` says why; the caller must not go on then. Meanwhile, the thread's calls may stand beside
/// captures of the application (`exchange_capture_mode`).
class current_device {
public:
    explicit current_device(int device)
        : device_{device}, before_{device}, mode_{exchange_capture_mode(cudaStreamCaptureModeRelaxed)} {
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
        exchange_capture_mode(mode_);
    }
    current_device(const current_device&) = delete;
    current_device& operator=(const current_device&) = delete;

    /// Returns why the GPU is not current, or cudaSuccess.
    [[nodiscard]] cudaError_t error() const { return error_; }

private:
    // The GPU asked for, and the one to be restored. They are equal if there is nothing to restore.
    int device_;
    int before_;
    cudaStreamCaptureMode mode_;  ///< of the thread, before
    cudaError_t error_ = cudaSuccess;
};

}  // namespace orchard::simt
