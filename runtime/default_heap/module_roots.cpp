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

/// Returns the error of a CUDA call, with what was tried.
absl::Status explain(const char* what, cudaError_t error) {
    (void)cudaGetLastError();  // reported here; the program's next query must not return it
    return detail::to_status(error, what);
}

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
    detail::kept_stream stream;
    if (absl::Status s = stream.take(); !s.ok()) {
        (void)cudaGetLastError();
        return s;
    }
    std::uint64_t head[2] = {};
    if (const cudaError_t error = copy(stream.get(), head, root, sizeof(head), cudaMemcpyDeviceToHost);
        error != cudaSuccess) {
        return explain("reading orchard_root", error);
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
        return explain("writing orchard_root", error);
    }
    return absl::OkStatus();
}

namespace detail {

int current_gpu() noexcept {
    int gpu = -1;
    return cudaGetDevice(&gpu) == cudaSuccess ? gpu : -1;
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
        return explain("making the GPU of the default heap current", here.error());
    }
    void* root = nullptr;
    if (const int error = find(&root); error != cudaSuccess) {
        return explain("finding orchard_root in a module of the program", static_cast<cudaError_t>(error));
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

namespace detail {

int current_gpu() noexcept { return -1; }
bool is_captured(void*) noexcept { return false; }
absl::Status bind_module(const heap* of, orchard_find_root, int) { return bind_root(of, nullptr, 0); }

}  // namespace detail
}  // namespace orchard

#endif
