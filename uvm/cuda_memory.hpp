// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What all CUDA backings and drivers need: plain device memory, pinned host memory, and copies beside running kernels.

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/simt/current_device.hpp"

namespace orchard::detail {

using simt::current_device;

/// The runtime's own words for an error.
absl::Status to_status(cudaError_t error, const char* call);

/// Memory on one GPU and beside it, given back with this. Any thread.
class cuda_memory {
public:
    cuda_memory() = default;
    ~cuda_memory();
    cuda_memory(const cuda_memory&) = delete;
    cuda_memory& operator=(const cuda_memory&) = delete;

    /// For the calling thread's current GPU. Before all others.
    absl::Status initialize();
    /// Bytes of pinned memory through which `read` and `write` copy.
    static constexpr std::size_t staging_bytes = 1 << 20;
    /// Gives that memory, which must outlive this; without it `read` and `write` fail.
    void set_staging(void* memory) { staging_ = memory; }

    [[nodiscard]] int device() const { return device_; }
    [[nodiscard]] cudaStream_t stream() const { return stream_; }

    /// One `cudaMalloc`. @param what what it is for, for the error's text
    absl::StatusOr<void*> allocate(std::uint64_t bytes, const char* what);
    /// As `allocate`, filled with zeros.
    absl::StatusOr<void*> allocate_zeroed(std::uint64_t bytes, const char* what);
    /// Pinned memory, zero-filled.
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes);

    /// Fills device memory with zeros, and waits for it. A stream operation: another thread's call may hold it up until
    /// kernels that run have ended, so that it is for the creation of a heap alone.
    absl::Status zero(void* at, std::size_t bytes);
    /// Copies through pinned memory, so that neither waits for running kernels.
    absl::Status read(void* to, const void* from, std::size_t bytes);
    absl::Status write(void* to, const void* from, std::size_t bytes);

private:
    absl::Status copy(void* to, const void* from, std::size_t bytes);

    int device_ = 0;
    cudaStream_t stream_ = nullptr;  ///< for kernels
    cudaStream_t copies_ = nullptr;  ///< waits for no kernel
    std::mutex owned_mutex_;
    std::vector<void*> device_memory_;
    std::vector<void*> host_memory_;
    std::mutex staging_mutex_;
    void* staging_ = nullptr;
};

}  // namespace orchard::detail

#endif
