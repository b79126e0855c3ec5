// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What all CUDA backings and drivers need: plain device memory, pinned host memory, and copies beside running kernels.

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "device/simt/current_device.hpp"
#include "uvm/memory/bounded_calls.hpp"
#include "uvm/memory/cuda_stream.hpp"

namespace orchard::detail {

using simt::current_device;

/// The runtime's own words for an error.
absl::Status to_status(cudaError_t error, const char* call);

/// Memory on one GPU and beside it, given back with this. Any thread.
///
/// Whatever is queued on a stream may have to wait for kernels that run, on any stream: once another thread sits in a
/// call that waits for one of them (`cudaFree`, `cudaHostAlloc`), or once a kernel that was not loaded is launched. So
/// all such work of this class is made by one thread, and those that ask for it wait until a deadline.
class cuda_memory {
public:
    /// How long `initialize`, `zero`, `read` and `write` wait.
    static constexpr absl::Duration default_patience = absl::Seconds(10);
    /// Bytes of pinned memory through which `read` and `write` copy.
    static constexpr std::size_t staging_bytes = 1 << 20;

    cuda_memory() = default;
    /// As `finish`. Calls CUDA only if `allocate` or `allocate_host_visible` gave
    /// something: `cudaFree` and `cudaFreeHost` wait for kernels that run.
    ~cuda_memory();
    cuda_memory(const cuda_memory&) = delete;
    cuda_memory& operator=(const cuda_memory&) = delete;

    /// For the calling thread's current GPU. Before all others.
    /// Errors: the runtime's own; DeadlineExceeded after `patience`, with the remedy: not idle then.
    absl::Status initialize(absl::Duration patience = default_patience);
    /// Gives the memory for copies, which must outlive this; without it `read` and `write` fail.
    void set_staging(void* memory) { staging_ = memory; }

    /// Waits for a call that exceeded its deadline. After it there is only the destructor.
    void finish() { calls_.reset(); }

    /// Returns false while a call that exceeded its deadline may still touch memory.
    [[nodiscard]] bool is_idle() const { return !calls_ || calls_->is_idle(); }
    [[nodiscard]] int device() const { return device_; }
    /// For kernels; only the caller's own work is on it.
    [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }

    /// One `cudaMalloc`. @param what what it is for, for the error's text
    absl::StatusOr<void*> allocate(std::uint64_t bytes, const char* what);
    /// As `allocate`, filled with zeros. Errors: those of `allocate` and `zero`.
    absl::StatusOr<void*> allocate_zeroed(std::uint64_t bytes, const char* what);
    /// Pinned memory, zero-filled.
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes);

    /// Fills device memory with zeros, and waits for it: for the creation of a heap alone. Errors: the runtime's own;
    /// DeadlineExceeded, with the remedy: the memory may be cleared later, until `is_idle`. All of these calls fail at
    /// once until then.
    absl::Status zero(void* at, std::size_t bytes);
    /// Copies through pinned memory, so that neither waits for running kernels. Errors: as of `zero`. A `write` that
    /// ended at its deadline may still happen later. Cost: one copy for each MiB, and two switches of threads.
    absl::Status read(void* to, const void* from, std::size_t bytes);
    absl::Status write(void* to, const void* from, std::size_t bytes);

private:
    absl::Status copy(void* to, const void* from, std::size_t bytes);

    int device_ = 0;
    kept_stream stream_;  ///< for kernels
    kept_stream copies_;  ///< waits for no kernel
    std::mutex owned_mutex_;
    std::vector<void*> device_memory_;
    std::vector<void*> host_memory_;
    std::mutex calls_mutex_;  ///< one call at a time, with the staging memory
    void* staging_ = nullptr;
    std::optional<bounded_calls> calls_;  ///< its thread uses the streams: destroyed before them
};

}  // namespace orchard::detail

#endif
