// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A second stream, for a kernel that runs beside others of an executor.

#include <utility>

#include "device/simt/launch.cuh"

namespace orchard::simt {

/// Makes kernels run beside each other: those that are enqueued on the executor that `fork` sets, and those that are
/// enqueued on the first executor until `join`. On the emulated device they run one after the other. Move-only. Its end
/// waits for its kernels.
class side_stream {
public:
    side_stream() = default;
    side_stream(const side_stream&) = delete;
    side_stream& operator=(const side_stream&) = delete;
    side_stream(side_stream&& other) noexcept { swap(other); }
    side_stream& operator=(side_stream&& other) noexcept {
        side_stream(std::move(other)).swap(*this);
        return *this;
    }
    ~side_stream() {
#if ORCHARD_CUDA_SOURCE
        if (stream_ != nullptr) {
            (void)cleared(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)));
            (void)cleared(cudaStreamDestroy(static_cast<cudaStream_t>(stream_)));
        }
        for (void* const event : {forked_, joined_}) {
            if (event != nullptr) {
                (void)cleared(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
            }
        }
#endif
    }

    /// Sets `side` to an executor whose kernels wait for those of `on` that are enqueued by now. Returns the driver's
    /// error if there is one. Cost on CUDA: two calls; the first time, a stream and two events are made.
    launch_result fork([[maybe_unused]] const executor& on, executor& side) {
        side = on;
#if ORCHARD_CUDA_SOURCE
        if (on.kind == device_kind::cuda) {
            const current_device here(on.device);
            cudaError_t error = here.error();
            const auto next = [&](auto call) { error = error == cudaSuccess ? call() : error; };
            if (stream_ == nullptr) {
                next([&] {
                    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(&stream_), cudaStreamNonBlocking);
                });
            }
            for (void** const event : {&forked_, &joined_}) {
                if (*event == nullptr) {
                    next([&] {
                        return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming);
                    });
                }
            }
            side.stream = stream_;
            next([&] { return wait(on.stream, forked_, stream_); });
            return detail::to_result(cleared(error));
        }
#endif
        return {};
    }
    /// Makes the kernels that are enqueued on `on` from now on wait for those of the other executor; after an error the
    /// caller has waited for them. Errors as `fork`.
    launch_result join([[maybe_unused]] const executor& on) {
#if ORCHARD_CUDA_SOURCE
        if (on.kind == device_kind::cuda) {
            const current_device here(on.device);
            const cudaError_t error = here.error() != cudaSuccess ? here.error() : wait(stream_, joined_, on.stream);
            if (error != cudaSuccess) {
                (void)cleared(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)));
            }
            return detail::to_result(cleared(error));
        }
#endif
        return {};
    }

private:
#if ORCHARD_CUDA_SOURCE
    /// Returns the error. It is reported by its caller, and must not be again by the program's next query.
    static cudaError_t cleared(cudaError_t error) {
        if (error != cudaSuccess) {
            (void)cudaGetLastError();
        }
        return error;
    }
    /// Makes `second` wait for what `first` has been given by now.
    static cudaError_t wait(void* first, void* event, void* second) {
        const cudaError_t error = cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(first));
        return error != cudaSuccess
                   ? error
                   : cudaStreamWaitEvent(static_cast<cudaStream_t>(second), static_cast<cudaEvent_t>(event), 0);
    }
#endif
    void swap(side_stream& other) noexcept {
        std::swap(stream_, other.stream_);
        std::swap(forked_, other.forked_);
        std::swap(joined_, other.joined_);
    }

    void* stream_ = nullptr;  ///< `cudaStream_t`
    void* forked_ = nullptr;  ///< `cudaEvent_t`
    void* joined_ = nullptr;
};

}  // namespace orchard::simt
