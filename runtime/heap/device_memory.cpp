// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Plain memory of a device: the functions of device_memory.hpp for CUDA, for the emulated device, and for a build
/// without CUDA.
///
///     function                  CUDA                                   emulated
///     allocate_device_memory    cuda_allocate: cudaMalloc              operator new
///     zero_device_memory        cuda_zero: memset on the stream        memset
///     copy_to_device, _host     cuda_copy: copy on the stream          memcpy
///     free_device_memory        cuda_free: cudaFree                    operator delete
///
/// The functions with `cuda_` exist twice, so that all others are written once.

#include "runtime/heap/device_memory.hpp"

#include <cstring>
#include <new>

#include "absl/strings/str_format.h"
#include "runtime/options/byte_size.hpp"

// Without the build's definition, this is a build without CUDA.
#ifndef ORCHARD_HAS_CUDA
#define ORCHARD_HAS_CUDA 0
#endif
#if ORCHARD_HAS_CUDA
#include <cuda_runtime_api.h>

#include "device/simt/current_device.hpp"
#endif

namespace orchard {

namespace {

/// The alignment that `allocate_device_memory` promises; `cudaMalloc` gives more.
constexpr std::align_val_t emulated_alignment{64};

/// Returns true if ordinary memory is the device's memory.
bool is_emulated(const simt::executor& on) { return on.kind == simt::device_kind::emulated; }

#if ORCHARD_HAS_CUDA

/// Returns the executor's stream; null is the default stream.
cudaStream_t stream_of(const simt::executor& on) { return static_cast<cudaStream_t>(on.stream); }

/// Returns OK, or an error with the call, the size and the runtime's text: ResourceExhausted for a lack of memory,
/// Internal otherwise.
absl::Status status_of(cudaError_t error, const char* call, std::uint64_t bytes) {
    if (error == cudaSuccess) {
        return absl::OkStatus();
    }
    const std::string text = absl::StrFormat("%s of %s: %s", call, format_bytes(bytes), cudaGetErrorString(error));
    return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

/// Waits for the stream if the call before has queued its work; returns the first error of the two.
absl::Status finish(const simt::executor& on, cudaError_t error, const char* call, std::uint64_t bytes) {
    return status_of(error == cudaSuccess ? cudaStreamSynchronize(stream_of(on)) : error, call, bytes);
}

/// The executor's GPU is current for each of these calls. Clearing and copying wait for the stream (`finish`).
absl::StatusOr<void*> cuda_allocate(const simt::executor& on, std::uint64_t bytes) {
    const simt::current_device here(on.device);
    void* memory = nullptr;
    const cudaError_t error = here.error() != cudaSuccess ? here.error() : cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
        cudaGetLastError();  // so that the next launch does not report it again
        return status_of(error, "cudaMalloc", bytes);
    }
    return memory;
}
void cuda_free(void* memory) { cudaFree(memory); }  // the current GPU does not matter
absl::Status cuda_zero(const simt::executor& on, void* device, std::uint64_t bytes) {
    const simt::current_device here(on.device);
    if (here.error() != cudaSuccess) {
        return status_of(here.error(), "cudaSetDevice before cudaMemset", bytes);
    }
    return finish(on, cudaMemsetAsync(device, 0, bytes, stream_of(on)), "cudaMemset", bytes);
}
absl::Status cuda_copy(const simt::executor& on, void* to, const void* from, std::uint64_t bytes, bool to_device) {
    const simt::current_device here(on.device);
    if (here.error() != cudaSuccess) {
        return status_of(here.error(), "cudaSetDevice before cudaMemcpy", bytes);
    }
    // The direction is given, since the host's pointer may be of any memory.
    const cudaMemcpyKind kind = to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    return finish(on, cudaMemcpyAsync(to, from, bytes, kind, stream_of(on)), "cudaMemcpy", bytes);
}

#else

// The same functions in a build without CUDA, where an executor for CUDA may still be named.
absl::Status no_cuda() { return absl::UnimplementedError("this build has no CUDA support; use the emulated device"); }
absl::StatusOr<void*> cuda_allocate(const simt::executor&, std::uint64_t) { return no_cuda(); }
void cuda_free(void*) {}
absl::Status cuda_zero(const simt::executor&, void*, std::uint64_t) { return no_cuda(); }
absl::Status cuda_copy(const simt::executor&, void*, const void*, std::uint64_t, bool) { return no_cuda(); }

#endif

/// Copies in either direction. The emulated device reaches the host's memory: a kernel has ended when its launch
/// returns, so that a plain copy is ordered behind it.
absl::Status copy(const simt::executor& on, void* to, const void* from, std::uint64_t bytes, bool to_device) {
    if (bytes == 0) {
        return absl::OkStatus();
    }
    if (is_emulated(on)) {
        std::memcpy(to, from, bytes);
        return absl::OkStatus();
    }
    return cuda_copy(on, to, from, bytes, to_device);
}

}  // namespace

/// `nothrow`: a lack of memory is an error of the call, and no exception.
absl::StatusOr<void*> allocate_device_memory(const simt::executor& on, std::uint64_t bytes) {
    if (bytes == 0) {
        return nullptr;
    }
    if (!is_emulated(on)) {
        return cuda_allocate(on, bytes);
    }
    void* memory = ::operator new(bytes, emulated_alignment, std::nothrow);
    if (memory == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrFormat("the emulated device gets no %s of host memory", format_bytes(bytes)));
    }
    return memory;
}

/// The kind must be that of the allocation, as the two kinds have different allocators.
void free_device_memory(const simt::executor& on, void* memory) {
    if (memory == nullptr) {
        return;
    }
    if (is_emulated(on)) {
        ::operator delete(memory, emulated_alignment);
    } else {
        cuda_free(memory);
    }
}

/// No bytes need no call, also on a GPU: `device` may then be null.
absl::Status zero_device_memory(const simt::executor& on, void* device, std::uint64_t bytes) {
    if (bytes == 0) {
        return absl::OkStatus();
    }
    if (is_emulated(on)) {
        std::memset(device, 0, bytes);
        return absl::OkStatus();
    }
    return cuda_zero(on, device, bytes);
}

/// Ordered behind kernels of the executor's stream; the emulated device has ended each launch before it returns.
absl::Status copy_to_device(const simt::executor& on, void* device, const void* host, std::uint64_t bytes) {
    return copy(on, device, host, bytes, true);
}

absl::Status copy_to_host(const simt::executor& on, void* host, const void* device, std::uint64_t bytes) {
    return copy(on, host, device, bytes, false);
}

}  // namespace orchard
