// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The streams, the copies and the plain memory of CUDA heaps; cuda_memory.hpp assigns the work to threads.
///
///     initialize        thread of `calls_`: takes both streams
///     zero              thread of `calls_`: memset on `copies_`, and the wait for it
///     read, write       caller: memcpy from or to the staging memory; thread of `calls_`: copy(), 1 MiB at most
///     allocate,         caller: cudaMalloc, cudaHostAlloc; no deadline holds for them
///     allocate_host_visible

#include "uvm/memory/cuda_memory.hpp"

#if ORCHARD_HAS_CUDA

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"

namespace orchard::detail {
namespace {

/// The text of every DeadlineExceeded: the cause of the delay, and the remedy.
constexpr const char* remedy =
    "a kernel is running, and a CUDA call of another thread that waits for it (cudaFree, cudaHostAlloc, ...), or the "
    "first launch of a kernel that was not loaded, holds up all other work on this GPU until it ends; create heaps "
    "before kernels are launched, load kernels beforehand (heap::preload), and call again when the kernel has ended";

}  // namespace

/// Both the error's name and its text: the name can be searched for, the text is for people.
absl::Status to_status(cudaError_t error, const char* call) {
    if (error == cudaSuccess) {
        return absl::OkStatus();
    }
    (void)cudaGetLastError();  // the error is reported here, and must not be reported again by the program's next query
    return absl::InternalError(
        absl::StrFormat("CUDA: %s: %s: %s", call, cudaGetErrorName(error), cudaGetErrorString(error)));
}

// The order matters: a late call may still write to the memory, so that it must end before the memory is freed.
cuda_memory::~cuda_memory() {
    finish();
    if (device_memory_.empty() && host_memory_.empty()) {
        return;
    }
    // Freed on the GPU that it was allocated on, whichever the calling thread uses.
    const current_device here(device_);
    for (void* p : device_memory_) {
        cudaFree(p);
    }
    for (void* p : host_memory_) {
        cudaFreeHost(p);
    }
}

/// The GPU is that of the calling thread, and is made current once for the thread of `calls_`, which makes no calls for
/// another one. All other functions make it current for their own calls, whichever thread calls them.
absl::Status cuda_memory::initialize(absl::Duration patience) {
    if (auto s = to_status(cudaGetDevice(&device_), "cudaGetDevice"); !s.ok()) {
        return s;
    }
    calls_.emplace(patience, remedy);
    patience_ = patience;
    // Creating a stream can be held up like work on one. The streams are taken on the thread that will use them.
    // If the deadline passes, the thread may take the streams later. They are members of this object, which the
    // destructor keeps until the thread has ended.
    return calls_->run("creating the streams of a heap", [this] {
        // Both for all later calls of this thread.
        simt::exchange_capture_mode(cudaStreamCaptureModeRelaxed);
        auto s = to_status(cudaSetDevice(device_), "cudaSetDevice");
        if (s.ok()) {
            s = stream_.take();
        }
        return s.ok() ? copies_.take() : s;
    });
}

/// The result of `cudaMemGetInfo` is used for the error's text alone; if that call fails, the text says 0 bytes.
absl::StatusOr<void*> cuda_memory::allocate(std::uint64_t bytes, const char* what) {
    const current_device here(device_);
    void* p = nullptr;
    const cudaError_t error = cudaMalloc(&p, bytes);
    if (error == cudaErrorMemoryAllocation) {
        std::size_t free_bytes = 0;
        std::size_t total = 0;
        cudaGetLastError();  // the error is reported here and must not be reported again by the next call
        cudaMemGetInfo(&free_bytes, &total);
        return absl::ResourceExhaustedError(
            absl::StrFormat("the GPU has %d of %d bytes free, %s needs %d; ask for a smaller capacity", free_bytes,
                            total, what, bytes));
    }
    if (error != cudaSuccess) {
        return to_status(error, "cudaMalloc");
    }
    // Locked after the call, which may wait for running kernels: other threads can allocate meanwhile.
    const std::scoped_lock lock(owned_mutex_);
    device_memory_.push_back(p);
    return p;
}

/// If clearing fails, the memory stays in the list, and is freed with this object: a late memset may still write to it.
absl::StatusOr<void*> cuda_memory::allocate_zeroed(std::uint64_t bytes, const char* what) {
    auto memory = allocate(bytes, what);
    if (!memory.ok()) {
        return memory;
    }
    if (auto s = zero(*memory, bytes); !s.ok()) {
        return s;
    }
    return memory;
}

/// The call uses device memory alone. The owner of that memory must not free it before `is_idle`.
absl::Status cuda_memory::zero(void* at, std::size_t bytes) {
    const std::scoped_lock lock(calls_mutex_);
    // The thread waits for the stream, too: otherwise the deadline would hold for the queueing alone.
    return calls_->run(absl::StrFormat("clearing %d bytes of device memory", bytes), [this, at, bytes] {
        auto s = to_status(cudaMemsetAsync(at, 0, bytes, copies_.get()), "cudaMemsetAsync");
        return s.ok() ? to_status(cudaStreamSynchronize(copies_.get()), "cudaStreamSynchronize") : s;
    });
}

/// Mapped, so that kernels reach the memory at all, and portable, so that it is pinned for every GPU's context. With
/// unified addresses, the host's address is the device's, too.
absl::StatusOr<void*> cuda_memory::allocate_host_visible(std::size_t bytes) {
    const current_device here(device_);
    void* p = nullptr;
    if (auto s = to_status(cudaHostAlloc(&p, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
        !s.ok()) {
        return s;
    }
    // Pinned memory is not cleared by CUDA, and a mailbox must be zero at first.
    std::memset(p, 0, bytes);
    const std::scoped_lock lock(owned_mutex_);
    host_memory_.push_back(p);
    return p;
}

/// Copies up to `staging_bytes` at a time: device memory to staging memory by `copy`, then to `to` by this thread. A
/// read that ends at its deadline has filled `to` up to some multiple of `staging_bytes`, and writes no more to it.
absl::Status cuda_memory::read(void* to, const void* from, std::size_t bytes) {
    const std::scoped_lock lock(calls_mutex_);
    // No test for an idle thread is needed here, unlike in `write`: if a late copy is under way, `copy` fails before
    // the staging memory is read.
    for (std::size_t done = 0; done < bytes;) {
        // The mutex is held for the whole read: the staging memory holds a part of it between the two copies.
        const std::size_t n = std::min(bytes - done, staging_bytes);
        if (auto s = copy(staging_, static_cast<const char*>(from) + done, n); !s.ok()) {
            return s;
        }
        std::memcpy(static_cast<char*>(to) + done, staging_, n);
        done += n;
    }
    return absl::OkStatus();
}

/// Without the test for an idle thread, the `memcpy` could change bytes that a late copy is still reading.
absl::Status cuda_memory::write(void* to, const void* from, std::size_t bytes) {
    // The staging memory holds all of a write, so that a write is one copy. Several could end at the deadline half way.
    if (bytes > staging_bytes) {
        return absl::InvalidArgumentError(
            absl::StrFormat("write of %d bytes; at most %d at once", bytes, staging_bytes));
    }
    if (staging_ == nullptr) {
        return absl::FailedPreconditionError("this memory has no staging memory for a write");
    }
    const std::scoped_lock lock(calls_mutex_);
    // An earlier call may still copy to or from the staging memory.
    if (auto s = calls_->check_idle(absl::StrFormat("a write of %d bytes", bytes)); !s.ok()) {
        return s;
    }
    std::memcpy(staging_, from, bytes);
    return copy(to, staging_, bytes);
}

/// One of the two is the staging memory, so no memory of a caller is accessed after the deadline. `cudaMemcpyDefault`:
/// the addresses tell the direction, also for memory that was mapped by the driver's calls.
absl::Status cuda_memory::copy(void* to, const void* from, std::size_t bytes) {
    return calls_->run(absl::StrFormat("a copy of %d bytes", bytes), [this, to, from, bytes] {
        auto s = to_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, copies_.get()), "cudaMemcpyAsync");
        return s.ok() ? to_status(cudaStreamSynchronize(copies_.get()), "cudaStreamSynchronize") : s;
    });
}

/// The thread waits for the stream, too, so that the queue is busy until all bytes are there. The copies are of mapped
/// memory in reserved addresses, so that no staging memory is needed.
absl::Status cuda_memory::begin_copies(int queue, std::vector<memory_copy> copies) {
    copy_queue& q = queues_[static_cast<std::size_t>(queue)];
    if (!q.calls) {
        q.calls.emplace(patience_, remedy);
    }
    return q.calls->begin("moving memory between the tiers", [this, &q, copies = std::move(copies)] {
        absl::Status s;
        if (q.stream.get() == nullptr) {  // the first call on this thread
            simt::exchange_capture_mode(cudaStreamCaptureModeRelaxed);
            s = to_status(cudaSetDevice(device_), "cudaSetDevice");
            s.Update(s.ok() ? q.stream.take() : s);
        }
        for (std::size_t i = 0; s.ok() && i < copies.size(); ++i) {
            const auto& [to, from, bytes] = copies[i];
            s = to_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, q.stream.get()), "cudaMemcpyAsync");
        }
        // After an error, too: the copies that were begun end before the queue is free.
        if (q.stream.get() != nullptr) {
            s.Update(to_status(cudaStreamSynchronize(q.stream.get()), "cudaStreamSynchronize"));
        }
        return s;
    });
}

absl::Status cuda_memory::finish_copies(int queue) {
    copy_queue& q = queues_[static_cast<std::size_t>(queue)];
    return q.calls ? q.calls->finish("moving memory between the tiers") : absl::OkStatus();
}

absl::Status cuda_memory::finish_stream(void* stream) const {
    const current_device here(device_);
    // To wait for a stream that is being captured would end the application's capture.
    auto* const of_application = static_cast<cudaStream_t>(stream);
    cudaStreamCaptureStatus capture{};
    const auto s = to_status(cudaStreamIsCapturing(of_application, &capture), "cudaStreamIsCapturing");
    if (!s.ok() || capture != cudaStreamCaptureStatusNone) {
        return s.ok() ? absl::FailedPreconditionError(
                            "memory cannot be moved while the stream is being captured; call "
                            "it after the capture")
                      : s;
    }
    return to_status(cudaStreamSynchronize(of_application), "cudaStreamSynchronize");
}

}  // namespace orchard::detail

#endif
