// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Managed memory on a GPU: one `cudaMallocManaged`. managed_memory.hpp describes the functions, docs/uvm.md the
/// driver.
///
///     allocate         cudaMallocManaged        addresses alone; pages come where they are touched or prefetched
///     advise           cudaMemAdvise            not ordered with the stream
///     begin_prefetch   cudaMemPrefetchAsync     by a thread of its own; no wait
///     is_moving        cuStreamQuery            true also if a prefetch is not called yet
///     finish           cudaStreamSynchronize    behind all prefetches
///     discard          cudaMemDiscardBatchAsync and a wait for the stream; CUDA 13 and later

#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/managed_memory.hpp"
#include "uvm/memory/queued_calls.hpp"

#if ORCHARD_HAS_CUDA

#include "absl/strings/str_format.h"
#include "uvm/memory/cuda_calls.hpp"
#include "uvm/memory/cuda_memory.hpp"

namespace orchard {
namespace {

using detail::to_status;

/// One `cudaMallocManaged`, and the operations by which the UVM driver moves it. All operations are queued on one
/// stream of its own: a discard thus follows every move of the same memory that began before, and the next move of it
/// follows the discard.
class cuda_managed_memory final : public managed_memory {
public:
    /// Managed memory has no counterpart of the virtual-memory calls, so `cudaFree` waits for running kernels.
    ~cuda_managed_memory() override {
        if (memory_ != nullptr) {
            const detail::current_device here(device_);
            cudaFree(memory_);
        }
    }

    /// Checks the GPU and takes the stream; call it first. Errors: those of `make_cuda_managed_memory`.
    absl::Status initialize() {
        if (auto s = to_status(cudaGetDevice(&device_), "cudaGetDevice"); !s.ok()) {
            return s;
        }
        // Without concurrent access the host must not touch any managed memory while a kernel runs, and nothing moves
        // on demand.
        for (const auto& [attribute, what] :
             {std::pair{cudaDevAttrManagedMemory, "has no managed memory"},
              std::pair{cudaDevAttrConcurrentManagedAccess, "and the host cannot use managed memory at one time"}}) {
            int has = 0;
            if (auto s = to_status(cudaDeviceGetAttribute(&has, attribute, device_), "cudaDeviceGetAttribute");
                !s.ok()) {
                return s;
            }
            if (has == 0) {
                return absl::FailedPreconditionError(absl::StrFormat("GPU %d %s", device_, what));
            }
        }
        absl::Status found = detail::driver_calls::find("cuStreamQuery", query_);
        return found.ok() ? stream_.take() : found;
    }

    absl::StatusOr<char*> allocate(std::size_t bytes) override {
        const detail::current_device here(device_);
        // One segment more, so that the range can be aligned to a segment.
        const cudaError_t error = cudaMallocManaged(&memory_, bytes + segment_bytes, cudaMemAttachGlobal);
        if (error == cudaErrorMemoryAllocation) {
            cudaGetLastError();  // the error is reported here and must not be reported again by the next call
            return absl::ResourceExhaustedError(
                absl::StrFormat("cudaMallocManaged has no %d bytes; ask for a smaller capacity", bytes));
        }
        if (error != cudaSuccess) {
            return to_status(error, "cudaMallocManaged");
        }
        // `memory_` keeps the address for `cudaFree`; the range begins at the next multiple of a segment.
        const auto address = reinterpret_cast<std::uintptr_t>(memory_);
        return static_cast<char*>(memory_) + (segment_bytes - address % segment_bytes) % segment_bytes;
    }

    /// Earlier advice is withdrawn first: the driver keeps the preferred location, the processors that have a mapping,
    /// and read_mostly beside each other.
    absl::Status advise(char* at, std::size_t bytes, managed_advice what) override {
        const detail::current_device here(device_);
        absl::Status s = call_advise(at, bytes, cudaMemAdviseUnsetPreferredLocation, false);
        s.Update(call_advise(at, bytes, cudaMemAdviseUnsetAccessedBy, false));
        s.Update(call_advise(at, bytes, cudaMemAdviseUnsetReadMostly, false));
        switch (what) {
            case managed_advice::none: break;
            case managed_advice::first_touch_gpu:
                s.Update(call_advise(at, bytes, cudaMemAdviseSetPreferredLocation, false));
                break;
            // Two pieces of advice: the memory stays on the host, and the GPU maps it, so that no access faults.
            case managed_advice::cpu_resident:
                s.Update(call_advise(at, bytes, cudaMemAdviseSetPreferredLocation, true));
                s.Update(call_advise(at, bytes, cudaMemAdviseSetAccessedBy, false));
                break;
            case managed_advice::read_mostly:
                s.Update(call_advise(at, bytes, cudaMemAdviseSetReadMostly, false));
                break;
        }
        return s;
    }

    /// By a thread of its own: `cudaMemPrefetchAsync` waits until a `cudaMemcpy` of another thread has ended, which may
    /// wait for a kernel, which may wait for the memory of the next commit (docs/backings.md).
    ///
    /// CUDA 13 names the destination by a location, earlier versions by the number of a device. The same difference
    /// appears in `call_advise`.
    absl::Status begin_prefetch(char* at, std::size_t bytes, memory_tier to) override {
        prefetches_.push([this, at, bytes, on_host = to == memory_tier::host] {
            const detail::current_device here(device_);
#if CUDART_VERSION >= 13000
            const cudaError_t error = cudaMemPrefetchAsync(at, bytes, location(on_host), 0, stream_.get());
#else
            const int where = on_host ? cudaCpuDeviceId : device_;
            const cudaError_t error = cudaMemPrefetchAsync(at, bytes, where, stream_.get());
#endif
            return to_status(error, "cudaMemPrefetchAsync");
        });
        return absl::OkStatus();
    }
    /// The driver's function: the runtime's would leave `cudaErrorNotReady` for the application's `cudaGetLastError`.
    [[nodiscard]] bool is_moving() const override {
        const detail::current_device here(device_);
        return !prefetches_.is_idle() || query_(stream_.get()) == CUDA_ERROR_NOT_READY;
    }
    absl::Status finish() override {
        const absl::Status called = prefetches_.finish();
        const detail::current_device here(device_);
        absl::Status moved = wait(cudaSuccess, "cudaMemPrefetchAsync");
        return called.ok() ? moved : called;
    }

#if CUDART_VERSION >= 13000
    // Discarding exists from CUDA 13 on. Before, contents are written back when the memory is evicted.
    [[nodiscard]] bool can_discard() const override { return true; }
    /// Afterwards the contents are undefined until they are written.
    absl::Status discard(char* at, std::size_t bytes) override {
        if (absl::Status s = prefetches_.finish(); !s.ok()) {
            return s;
        }
        const detail::current_device here(device_);
        void* from = at;
        // A batch of one range. The function takes arrays of addresses and sizes.
        return wait(cudaMemDiscardBatchAsync(&from, &bytes, 1, 0, stream_.get()), "cudaMemDiscardBatchAsync");
    }
#else
    // Earlier versions of CUDA.
    [[nodiscard]] bool can_discard() const override { return false; }
    absl::Status discard(char*, std::size_t) override { return absl::OkStatus(); }
#endif

private:
#if CUDART_VERSION >= 13000
    /// Returns the host or the GPU as a location.
    [[nodiscard]] cudaMemLocation location(bool on_host) const {
        cudaMemLocation where{};
        where.type = on_host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
        where.id = on_host ? 0 : device_;
        return where;
    }
#endif
    /// Gives one piece of advice about [at, at + bytes).
    [[nodiscard]] absl::Status call_advise(char* at, std::size_t bytes, cudaMemoryAdvise what, bool on_host) const {
#if CUDART_VERSION >= 13000
        return to_status(cudaMemAdvise(at, bytes, what, location(on_host)), "cudaMemAdvise");
#else
        return to_status(cudaMemAdvise(at, bytes, what, on_host ? cudaCpuDeviceId : device_), "cudaMemAdvise");
#endif
    }
    /// Returns the error of queueing an operation, otherwise that of the stream's operations up to it. Waits without a
    /// deadline. A discard that completed after its caller had given up would destroy data written since: kernels touch
    /// memory without regard to this stream. The growth thread may therefore be held up by kernels, unlike in an
    /// elastic heap (docs/backings.md).
    [[nodiscard]] absl::Status wait(cudaError_t enqueued, const char* call) const {
        auto s = to_status(enqueued, call);
        return s.ok() ? to_status(cudaStreamSynchronize(stream_.get()), call) : s;
    }

    // Set by `initialize`: the GPU that was current for the thread that created the heap.
    int device_ = 0;
    detail::kept_stream stream_;  ///< waits for no kernel; idle when it is given up, after `finish`
    decltype(cuStreamQuery)* query_ = nullptr;
    void* memory_ = nullptr;
    detail::queued_calls prefetches_;  // ends first
};

}  // namespace

absl::StatusOr<std::unique_ptr<managed_memory>> make_cuda_managed_memory() {
    auto result = std::make_unique<cuda_managed_memory>();
    if (auto s = result->initialize(); !s.ok()) {
        return s;
    }
    return result;
}

}  // namespace orchard

#else

namespace orchard {

absl::StatusOr<std::unique_ptr<managed_memory>> make_cuda_managed_memory() {
    return absl::FailedPreconditionError("this build has no CUDA support; use the emulated device");
}

}  // namespace orchard

#endif
