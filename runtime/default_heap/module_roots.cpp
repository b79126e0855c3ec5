// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The CUDA calls of the default heaps: which GPU is current, and the writing of a module's symbol.

#include "runtime/default_heap/module_roots.hpp"

#include <cstring>

#include "absl/strings/str_format.h"
#include "runtime/default_heap/heap_root.cuh"

#if ORCHARD_HAS_CUDA

#include <cuda_runtime_api.h>

#include "device/simt/current_device.hpp"
#include "uvm/memory/cuda_memory.hpp"
#include "uvm/memory/cuda_stream.hpp"

namespace orchard {
namespace {

/// Copies `bytes` bytes between the host and a symbol, and waits for the copy alone. Errors: the runtime's.
cudaError_t copy(cudaStream_t stream, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, stream);
    const cudaError_t done = cudaStreamSynchronize(stream);
    return error == cudaSuccess ? done : error;
}

}  // namespace

/// The head of the symbol is the module's own: it is compared, and not written.
absl::Status bind_root(const heap* of, void* root, std::size_t bytes) {
    if (root == nullptr || bytes != sizeof(heap_root)) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "orchard_root: %d bytes at %p, where this version of Orchard has %d; compile the module's device code and "
            "the host's library from one version",
            bytes, root, sizeof(heap_root)));
    }
    if (of != nullptr && of->device().kind != simt::device_kind::cuda) {
        return absl::FailedPreconditionError(
            "the heap is on the emulated device, which kernels of a module cannot use; make it with the device cuda");
    }
    // Kernels of another GPU would fault in the heap's memory. The symbol is one of the current GPU.
    if (const int gpu = detail::current_gpu(); of != nullptr && of->device().gpu != gpu) {
        return absl::FailedPreconditionError(absl::StrFormat(
            "the heap is on GPU %d, and the current GPU is %d; make the heap's GPU current where the module is loaded "
            "and bound",
            of->device().gpu, gpu));
    }
    detail::kept_stream stream;
    if (absl::Status s = stream.take(); !s.ok()) {
        return s;
    }
    std::uint64_t head[2] = {};
    if (const cudaError_t error = copy(stream.get(), head, root, sizeof(head), cudaMemcpyDeviceToHost);
        error != cudaSuccess) {
        return detail::to_status(error, "reading orchard_root");
    }
    if (head[0] != heap_root::current_abi || head[1] != sizeof(heap_root)) {
        return absl::FailedPreconditionError(absl::StrFormat(
            "orchard_root: the module was compiled for layout %d of %d bytes, this library has %d of %d; compile the "
            "module's device code and the host's library from one version of Orchard",
            head[0], head[1], heap_root::current_abi, sizeof(heap_root)));
    }
    unsigned char view[sizeof(heap_ref)] = {};
    if (of != nullptr) {
        const heap_ref ref = of->ref();
        std::memcpy(view, &ref, sizeof(ref));
    }
    char* const at = static_cast<char*>(root) + offsetof(heap_root, ref);
    if (const cudaError_t error = copy(stream.get(), at, view, sizeof(view), cudaMemcpyHostToDevice);
        error != cudaSuccess) {
        return detail::to_status(error, "writing orchard_root");
    }
    return absl::OkStatus();
}

/// The module may be unloaded, and its memory may be another object's: only a symbol with this heap's view is written.
void unbind_root(const heap& of, void* root) noexcept {
    const simt::current_device here(of.device().gpu);
    cudaPointerAttributes found{};
    heap_root now{};
    detail::kept_stream stream;
    if (here.error() == cudaSuccess && cudaPointerGetAttributes(&found, root) == cudaSuccess &&
        found.type == cudaMemoryTypeDevice && stream.take().ok() &&
        copy(stream.get(), &now, root, sizeof(now), cudaMemcpyDeviceToHost) == cudaSuccess) {
        const heap_ref ref = of.ref();
        if (now.abi == heap_root::current_abi && std::memcmp(&now.ref, &ref, sizeof(ref)) == 0) {
            (void)bind_root(nullptr, root, sizeof(heap_root));
        }
    }
    (void)cudaGetLastError();  // otherwise the program's next query would return an error of a call above
}

namespace detail {

int current_gpu() noexcept {
    int gpu = -1;
    if (cudaGetDevice(&gpu) == cudaSuccess) {
        return gpu;
    }
    (void)cudaGetLastError();  // otherwise the program's next query would return this error
    return -1;
}

/// A query that fails may concern the default stream beside the capture of another one: nothing may be made then
/// either.
bool is_captured(void* stream) noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status) != cudaSuccess) {
        (void)cudaGetLastError();
        return true;
    }
    return status != cudaStreamCaptureStatusNone;
}

/// The symbol's size is that of the module's own code, which `find` cannot tell; the head says it.
absl::Status bind_module(const heap* of, orchard_find_root find, int gpu) {
    const simt::current_device here(gpu);
    if (here.error() != cudaSuccess) {
        return detail::to_status(here.error(), "making the GPU of the default heap current");
    }
    void* root = nullptr;
    if (const int error = find(&root); error != cudaSuccess) {
        return detail::to_status(static_cast<cudaError_t>(error), "finding orchard_root in a module of the program");
    }
    return bind_root(of, root, sizeof(heap_root));
}

}  // namespace detail
}  // namespace orchard

#else

namespace orchard {

absl::Status bind_root(const heap*, void*, std::size_t) {
    return absl::FailedPreconditionError(
        "this build of Orchard has no CUDA, and no module to bind; build it with ORCHARD_CUDA=ON");
}

void unbind_root(const heap&, void*) noexcept {}

namespace detail {

int current_gpu() noexcept { return -1; }
bool is_captured(void*) noexcept { return false; }
absl::Status bind_module(const heap* of, orchard_find_root, int) { return bind_root(of, nullptr, 0); }

}  // namespace detail
}  // namespace orchard

#endif
