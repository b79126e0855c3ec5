// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// How `orchard bench first` launches its work: on a GPU by plain `__global__` kernels and `<<<>>>` on the default
/// stream, as an ordinary program uses a heap; on the emulated device the same work by `simt::launch`. A kernel of
/// `simt::launch` may have a bound on its registers; a program's kernel has none, and its times are the ones of
/// interest here.

#include <chrono>
#include <cstdint>
#include <string>

#include <orchard/device.cuh>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#if ORCHARD_CUDA_SOURCE
#include <cuda_runtime_api.h>
#endif

namespace orchard::bench::first {

/// Milliseconds of the host's clock since a moment.
class stopwatch {
public:
    /// Returns the milliseconds since the object was made.
    [[nodiscard]] double ms() const {
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began_).count();
    }

private:
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

/// The times of a launch.
struct launch_times {
    double kernel_us = 0;  ///< on a GPU between events around the launch; else the host's time
    double wall_us = 0;    ///< from before the launch until the host observed its end
};

#if ORCHARD_CUDA_SOURCE

/// A kernel as an ordinary program writes it: arguments by value, no bound on its registers.
template <class Work>
__global__ void plain_kernel(Work work) {
    work(simt::position());
}

/// Ok, or InternalError with the call and the runtime's own text.
inline absl::Status cuda_status(cudaError_t error, const char* call) {
    return error == cudaSuccess ? absl::OkStatus()
                                : absl::InternalError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

#endif

/// Launches work on one device and waits for its end. On CUDA it belongs to the GPU that is current at construction.
class launcher {
public:
    /// @param on  the device; its stream is not used on CUDA: kernels go to the default stream
    explicit launcher(const simt::executor& on) : on_{on} { on_.timed = true; }
    launcher(const launcher&) = delete;
    launcher& operator=(const launcher&) = delete;

    [[nodiscard]] bool is_cuda() const { return on_.kind == simt::device_kind::cuda; }

    /// Calls `work` in at least `threads` threads and returns the times; `work` checks for surplus threads. Errors:
    /// InternalError for a launch, an event or a kernel that failed.
    template <class Work>
    absl::StatusOr<launch_times> run(const Work& work, std::uint64_t threads) {
        if (!status_.ok()) {
            return status_;
        }
        const simt::grid shape = simt::grid_for(threads);
#if ORCHARD_CUDA_SOURCE
        if (is_cuda()) {
            return run_plain(work, shape);
        }
#endif
        const stopwatch watch;
        const simt::launch_result done = simt::launch(on_, shape, work);
        if (!done.ok) {
            return absl::InternalError(done.error);
        }
        return launch_times{done.microseconds, watch.ms() * 1000};
    }

    /// Loads the kernel of a kind of work and returns the milliseconds of the loading, by the host's clock; 0 on the
    /// emulated device. Asking for a kernel's attributes loads it, and runs nothing. Errors: InternalError with the
    /// runtime's text.
    template <class Work>
    absl::StatusOr<double> load() {
        const stopwatch watch;
#if ORCHARD_CUDA_SOURCE
        if (is_cuda()) {
            cudaFuncAttributes attributes{};
            status_.Update(
                cuda_status(cudaFuncGetAttributes(&attributes, plain_kernel<Work>), "cudaFuncGetAttributes"));
            return status_.ok() ? absl::StatusOr<double>(watch.ms()) : status_;
        }
#endif
        return 0.0;
    }

private:
#if ORCHARD_CUDA_SOURCE
    /// Launches on the default stream, between two events, and tells the launch watch as `simt::launch` does. An error
    /// stays in `status_`, so that later launches fail at once.
    template <class Kernel>
    absl::StatusOr<launch_times> run_plain(const Kernel& work, simt::grid shape) {
        const simt::launch_notice notice(static_cast<const char*>(__PRETTY_FUNCTION__));
        const stopwatch watch;
        // Events are recorded on the default stream, directly before and behind the kernel.
        events_.begin();
        plain_kernel<<<shape.blocks, shape.threads_per_block>>>(work);
        status_.Update(cuda_status(cudaGetLastError(), "a launch"));
        events_.end();
        events_.wait();
        const double wall_us = watch.ms() * 1000;
        const double kernel_us = events_.microseconds();
        status_.Update(cuda_status(events_.error(), "the events around a launch"));
        return status_.ok() ? absl::StatusOr<launch_times>(launch_times{kernel_us, wall_us}) : status_;
    }

#endif
    simt::executor on_;
#if ORCHARD_CUDA_SOURCE
    simt::event_pair events_{is_cuda()};
#endif
    absl::Status status_;
};

}  // namespace orchard::bench::first
