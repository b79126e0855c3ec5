// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Memory for all CUDA backings and drivers: plain device memory, pinned host memory, and copies while kernels run.

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
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
#include "uvm/memory/memory_driver.hpp"

namespace orchard::detail {

using simt::current_device;

/// Returns OK for `cudaSuccess`; otherwise Internal with the call's name and the runtime's own text.
absl::Status to_status(cudaError_t error, const char* call);

/// Owns memory on one GPU and pinned host memory, and frees it on destruction. Any thread.
///
/// Work on any stream may have to wait for running kernels. This happens if another thread is in a call that waits for
/// one of them (`cudaFree`, `cudaHostAlloc`), or if a kernel is launched that was not loaded. Therefore one thread does
/// all stream work of this class, and callers wait for it until a deadline.
///
///     caller                                                  thread of `calls_`
///     write: memcpy to the staging memory  ----run---->       copy on `copies_`: staging memory to device memory
///            returns at the end, or at the deadline           waits for the stream
///
/// The staging memory makes this safe: after the deadline the caller's own memory is not read or written any more.
class cuda_memory {
public:
    /// The time for which `initialize`, `zero`, `read` and `write` wait.
    static constexpr absl::Duration default_patience = absl::Seconds(10);
    /// Bytes of pinned memory through which `read` and `write` copy. A copy of memory that is not pinned may wait for
    /// running kernels.
    static constexpr std::size_t staging_bytes = 1 << 20;

    cuda_memory() = default;
    /// Waits as `finish` does. Calls CUDA only if `allocate` or `allocate_host_visible` returned memory, because
    /// `cudaFree` and `cudaFreeHost` wait for running kernels.
    ~cuda_memory();
    cuda_memory(const cuda_memory&) = delete;
    cuda_memory& operator=(const cuda_memory&) = delete;

    /// Initializes this object for the calling thread's current GPU; call it first, and once. Takes two streams.
    /// Errors: the runtime's own; DeadlineExceeded, with the remedy, after `patience`, in which case `is_idle` is
    /// false.
    absl::Status initialize(absl::Duration patience = default_patience);
    /// Sets the memory for copies, which must outlive this object. Without it, `read` and `write` fail.
    void set_staging(void* memory) { staging_ = memory; }

    /// Waits for a call that exceeded its deadline, however long it takes. Afterwards only the destructor may be
    /// called. The owner of memory that such a call may use calls it before it releases that memory.
    void finish() {
        calls_.reset();
        for (copy_queue& q : queues_) {
            q.calls.reset();
        }
    }

    /// Returns false while a call that exceeded its deadline, or a copy of `begin_copies`, may still access memory.
    [[nodiscard]] bool is_idle() const {
        return (!calls_ || calls_->is_idle()) && std::all_of(queues_.begin(), queues_.end(), [](const copy_queue& q) {
                   return !q.calls || q.calls->is_idle();
               });
    }
    /// Returns the number of the GPU.
    [[nodiscard]] int device() const { return device_; }
    /// Returns the stream for kernels, on which only the caller's own work runs.
    [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }

    /// Returns memory of one `cudaMalloc`, with arbitrary content. Errors: ResourceExhausted, with the free bytes; the
    /// runtime's own. Not bounded by the deadline.
    /// @param what  purpose of the memory, for the error's text
    absl::StatusOr<void*> allocate(std::uint64_t bytes, const char* what);
    /// Returns zero-filled memory of one `cudaMalloc`. Errors: those of `allocate` and `zero`.
    absl::StatusOr<void*> allocate_zeroed(std::uint64_t bytes, const char* what);
    /// Returns pinned memory, zero-filled, which kernels of every GPU can access. Errors: the runtime's own.
    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes);

    /// Fills device memory with zeros, and waits for it; only for the creation of a heap. Errors: the runtime's own;
    /// DeadlineExceeded, with the remedy. After that error the memory may be cleared at any time until `is_idle`, and
    /// until then all of these calls fail at once.
    absl::Status zero(void* at, std::size_t bytes);
    /// Copy through pinned memory, so that neither waits for running kernels unless another call holds up all streams.
    /// Errors: those of `zero`; InvalidArgument for a `write` of more than `staging_bytes`. A `write` that ended at its
    /// deadline may still take effect later. One copy at a time: threads wait for each other. Cost: one copy for each
    /// MiB, and two switches of threads.
    absl::Status read(void* to, const void* from, std::size_t bytes);
    absl::Status write(void* to, const void* from, std::size_t bytes);

    /// As `memory_driver::begin_copies`, `finish_copies` and `finish_stream`. One thread for each queue.
    absl::Status begin_copies(int queue, std::vector<memory_copy> copies);
    absl::Status finish_copies(int queue);
    absl::Status finish_stream(void* stream) const;

private:
    /// A stream for copies between the tiers, and the thread that uses it; both made by the first `begin_copies`.
    struct copy_queue {
        kept_stream stream;
        std::optional<bounded_calls> calls;  ///< uses the stream, so it is destroyed before it
    };

    /// Makes one copy on `copies_` and waits for it, with `calls_mutex_` held.
    absl::Status copy(void* to, const void* from, std::size_t bytes);

    int device_ = 0;
    absl::Duration patience_ = default_patience;
    kept_stream stream_;  ///< for kernels
    kept_stream copies_;  ///< does not wait for kernels
    // `owned_mutex_` protects the two lists; it is not held during a call of CUDA.
    std::mutex owned_mutex_;
    std::vector<void*> device_memory_;
    std::vector<void*> host_memory_;
    std::mutex calls_mutex_;  ///< held for one call, which uses the staging memory
    void* staging_ = nullptr;
    std::optional<bounded_calls> calls_;  ///< its thread uses the streams, so it is destroyed before them
    std::array<copy_queue, memory_driver::copy_queues> queues_;
};

}  // namespace orchard::detail

#endif
