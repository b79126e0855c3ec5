// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "absl/strings/str_format.h"
#include "uvm/backing.hpp"

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

namespace orchard {
namespace {

absl::Status to_status(cudaError_t error, const char* call) {
    if (error == cudaSuccess) {
        return absl::OkStatus();
    }
    return absl::InternalError(
        absl::StrFormat("CUDA: %s: %s: %s", call, cudaGetErrorName(error), cudaGetErrorString(error)));
}

class cuda_backing final : public backing {
public:
    explicit cuda_backing(std::uint32_t segments) : segments_{segments} {}
    ~cuda_backing() override {
        cudaSetDevice(device_);
        for (void* p : device_memory_) {
            cudaFree(p);
        }
        for (void* p : host_memory_) {
            cudaFreeHost(p);
        }
        if (stream_ != nullptr) {
            cudaStreamDestroy(stream_);
        }
    }

    absl::Status initialize() {
        if (auto s = to_status(cudaGetDevice(&device_), "cudaGetDevice"); !s.ok()) {
            return s;
        }
        if (auto s = to_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
            !s.ok()) {
            return s;
        }
        auto staging = allocate_host_visible(staging_bytes);
        if (!staging.ok()) {
            return staging.status();
        }
        staging_ = *staging;
        const std::uint64_t bytes = (std::uint64_t{segments_} + 1) << segment_shift;
        auto memory = allocate_device(bytes, "the super chunk");
        if (!memory.ok()) {
            return memory.status();
        }
        const auto address = reinterpret_cast<std::uintptr_t>(*memory);
        base_ = static_cast<char*>(*memory) + (segment_bytes - address % segment_bytes) % segment_bytes;
        return absl::OkStatus();
    }

    [[nodiscard]] char* base() const override { return base_; }
    [[nodiscard]] std::uint32_t segments() const override { return segments_; }
    [[nodiscard]] std::uint32_t committed_at_start() const override { return segments_; }
    absl::Status commit(segment_run) override { return absl::OkStatus(); }

    absl::StatusOr<void*> allocate_metadata(std::size_t bytes) override {
        auto memory = allocate_device(bytes, "metadata");
        if (!memory.ok()) {
            return memory;
        }
        if (auto s = to_status(cudaMemsetAsync(*memory, 0, bytes, stream_), "cudaMemsetAsync"); !s.ok()) {
            return s;
        }
        if (auto s = to_status(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); !s.ok()) {
            return s;
        }
        return memory;
    }

    absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) override {
        void* p = nullptr;
        if (auto s = to_status(cudaHostAlloc(&p, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
            !s.ok()) {
            return s;
        }
        host_memory_.push_back(p);
        std::memset(p, 0, bytes);
        return p;
    }

    [[nodiscard]] void* stream() const override { return stream_; }
    absl::Status read(void* to, const void* from, std::size_t bytes) override {
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
    absl::Status write(void* to, const void* from, std::size_t bytes) override {
        const std::scoped_lock lock(staging_mutex_);
        if (bytes > staging_bytes) {
            return absl::InvalidArgumentError(
                absl::StrFormat("write of %d bytes; at most %d at once", bytes, staging_bytes));
        }
        std::memcpy(staging_, from, bytes);
        return copy(to, staging_, bytes);
    }

private:
    // Pinned, so that a copy is asynchronous to running kernels; large enough that big reads run at link speed.
    static constexpr std::size_t staging_bytes = 1 << 20;

    absl::Status copy(void* to, const void* from, std::size_t bytes) {
        if (auto s = to_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
            !s.ok()) {
            return s;
        }
        return to_status(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    }

    absl::StatusOr<void*> allocate_device(std::uint64_t bytes, const char* what) {
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
        device_memory_.push_back(p);
        return p;
    }

    std::uint32_t segments_;
    int device_ = 0;
    cudaStream_t stream_ = nullptr;
    char* base_ = nullptr;
    std::vector<void*> device_memory_;
    std::vector<void*> host_memory_;
    std::mutex staging_mutex_;
    void* staging_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<backing>> make_cuda_backing(std::uint64_t capacity) {
    auto result = std::make_unique<cuda_backing>(static_cast<std::uint32_t>(capacity >> segment_shift));
    if (auto s = result->initialize(); !s.ok()) {
        return s;
    }
    return result;
}

}  // namespace orchard

#else

namespace orchard {

absl::StatusOr<std::unique_ptr<backing>> make_cuda_backing(std::uint64_t) {
    return absl::FailedPreconditionError("this build has no CUDA support; use the emulated device");
}

}  // namespace orchard

#endif
