// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "uvm/cuda_memory.hpp"

#if ORCHARD_HAS_CUDA

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"

namespace orchard::detail {

absl::Status to_status(cudaError_t error, const char* call) {
    if (error == cudaSuccess) {
        return absl::OkStatus();
    }
    return absl::InternalError(
        absl::StrFormat("CUDA: %s: %s: %s", call, cudaGetErrorName(error), cudaGetErrorString(error)));
}

cuda_memory::~cuda_memory() {
    if (stream_ == nullptr) {
        return;  // never initialized: it owns nothing, and there may be no GPU
    }
    const current_device here(device_);
    for (void* p : device_memory_) {
        cudaFree(p);
    }
    for (void* p : host_memory_) {
        cudaFreeHost(p);
    }
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(copies_);
}

absl::Status cuda_memory::initialize() {
    if (auto s = to_status(cudaGetDevice(&device_), "cudaGetDevice"); !s.ok()) {
        return s;
    }
    if (auto s = to_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); !s.ok()) {
        return s;
    }
    return to_status(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "cudaStreamCreate");
}

absl::StatusOr<void*> cuda_memory::allocate(std::uint64_t bytes, const char* what) {
    const current_device here(device_);
    void* p = nullptr;
    const cudaError_t error = cudaMalloc(&p, bytes);
    if (error == cudaErrorMemoryAllocation) {
        std::size_t free_bytes = 0;
        std::size_t total = 0;
        cudaGetLastError();  // it is reported here, not by the next call
        cudaMemGetInfo(&free_bytes, &total);
        return absl::ResourceExhaustedError(
            absl::StrFormat("the GPU has %d of %d bytes free, %s needs %d; ask for a smaller capacity", free_bytes,
                            total, what, bytes));
    }
    if (error != cudaSuccess) {
        return to_status(error, "cudaMalloc");
    }
    const std::scoped_lock lock(owned_mutex_);
    device_memory_.push_back(p);
    return p;
}

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

absl::Status cuda_memory::zero(void* at, std::size_t bytes) {
    const current_device here(device_);
    if (auto s = to_status(cudaMemsetAsync(at, 0, bytes, stream_), "cudaMemsetAsync"); !s.ok()) {
        return s;
    }
    return to_status(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

absl::StatusOr<void*> cuda_memory::allocate_host_visible(std::size_t bytes) {
    const current_device here(device_);
    void* p = nullptr;
    if (auto s = to_status(cudaHostAlloc(&p, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
        !s.ok()) {
        return s;
    }
    std::memset(p, 0, bytes);
    const std::scoped_lock lock(owned_mutex_);
    host_memory_.push_back(p);
    return p;
}

absl::Status cuda_memory::read(void* to, const void* from, std::size_t bytes) {
    const current_device here(device_);
    const std::scoped_lock lock(staging_mutex_);
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t n = std::min(bytes - done, staging_bytes);
        const char* source = static_cast<const char*>(from) + done;
        if (auto s = copy(staging_, source, n); !s.ok()) {
            return s;
        }
        std::memcpy(static_cast<char*>(to) + done, staging_, n);
        done += n;
    }
    return absl::OkStatus();
}

absl::Status cuda_memory::write(void* to, const void* from, std::size_t bytes) {
    const current_device here(device_);
    const std::scoped_lock lock(staging_mutex_);
    if (bytes > staging_bytes) {
        return absl::InvalidArgumentError(
            absl::StrFormat("write of %d bytes; at most %d at once", bytes, staging_bytes));
    }
    std::memcpy(staging_, from, bytes);
    return copy(to, staging_, bytes);
}

absl::Status cuda_memory::copy(void* to, const void* from, std::size_t bytes) {
    if (auto s = to_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, copies_), "cudaMemcpyAsync"); !s.ok()) {
        return s;
    }
    return to_status(cudaStreamSynchronize(copies_), "cudaStreamSynchronize");
}

}  // namespace orchard::detail

#endif
