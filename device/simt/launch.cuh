// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam, part 3: the launch of a kernel, by one function for both devices.
///
/// A kernel is a trivially copyable function object with `ORCHARD_FN void operator()(simt::thread_position at) const`;
/// its members are its arguments.
///
///     struct count {
///         simt::device_word<std::uint32_t>* word;
///         ORCHARD_FN void operator()(simt::thread_position) const { word->fetch_add<simt::order::relaxed>(1); }
///     };
///     const simt::launch_result r = simt::launch(on, simt::grid_for(1000), count{word});    // 4 blocks, 1,024 threads
///
/// If a launch fails on the emulated device, its lanes leave their kernels by an exception, which the waiting function
/// of the seam throws. Code that waits in a kernel must therefore not be `noexcept`, and no destructor may call it.

#include <cstdint>
#include <string>
#include <type_traits>

#include "device/simt/config.cuh"
#include "device/simt/emulated/hooks.hpp"
#include "device/simt/lane.cuh"
#include "device/simt/launch_watch.hpp"
#if ORCHARD_CUDA_SOURCE
#include <cuda_runtime_api.h>

#include "device/simt/current_device.hpp"
#include "device/simt/event_pair.hpp"
#endif

namespace orchard::simt {

/// The device that runs a kernel.
enum class device_kind : int { emulated, cuda };

/// The shape of a launch. Both numbers are at least 1; `threads_per_block` at most 1024.
struct grid {
    std::uint32_t blocks = 1;
    std::uint32_t threads_per_block = 256;
};

/// Returns the grid with at least one thread for each of `threads` indices; the kernel must check for the excess
/// threads. The grid has at least one block, also for 0 indices, because an empty launch is an error on both devices.
constexpr grid grid_for(std::uint64_t threads, std::uint32_t threads_per_block = 256) {
    const std::uint64_t blocks = (threads + threads_per_block - 1) / threads_per_block;
    return {static_cast<std::uint32_t>(blocks == 0 ? 1 : blocks), threads_per_block};
}

/// The result of a launch.
struct launch_result {
    bool ok = true;
    std::string error;        ///< empty if `ok`; otherwise what failed, on one or more lines, with the lanes that wait
    emulated::costs costs{};  ///< what it cost; zero on CUDA
    double microseconds = 0;  ///< run time of the kernel; on CUDA by events, and only if the executor is `timed`
};

namespace emulated {

/// The body of a kernel, type-erased: called once by each lane. `kernel` is the function object, which all lanes share.
using kernel_body = void (*)(const void* kernel, thread_position at);

/// Runs a grid on the pool of host threads. Returns when every lane has returned, or when no lane can continue. The
/// calling thread runs blocks, too. An error in one block stops the lanes of all blocks when they next wait; the result
/// has the first error. A call by a lane and an argument out of range are errors; then no lane runs.
/// @param workers   number of host threads that run blocks, up to 1,024; 0: as many as the machine has. Fewer run if
///     the stacks of their lanes would take more than half of the mappings that a process may have
/// @param recorder  records the lanes' accesses; null: none are recorded
launch_result run_grid(grid shape, kernel_body body, const void* kernel, unsigned workers,
                       access_recorder* recorder = nullptr);

}  // namespace emulated

/// Where kernels run. Cheap to copy.
struct executor {
    device_kind kind = device_kind::emulated;
    unsigned workers = 0;    ///< emulated: host threads that run blocks; 0: as many as the machine has
    int device = -1;         ///< CUDA: the ordinal of the GPU; negative: the calling thread's current one
    void* stream = nullptr;  ///< CUDA: the `cudaStream_t` to launch on, of that GPU
    bool timed = false;      ///< measure the kernel's time; costs some microseconds on the host
    emulated::access_recorder* recorder = nullptr;  ///< emulated: records the lanes' accesses; may be null
};

namespace detail {
/// Returns the result of a launch that was not carried out.
inline launch_result failed_launch(const char* why) {
    launch_result result;
    result.ok = false;
    result.error = why;
    return result;
}
}  // namespace detail

#if ORCHARD_CUDA_SOURCE
namespace detail {

/// The functions that run on the GPU. The kernel object is a `__grid_constant__`: all threads read it in place, without
/// a copy on each thread's stack.
template <class Kernel>
__global__ void plain_entry(const __grid_constant__ Kernel kernel) {
    kernel(position());
}

template <class Kernel>
__global__ void __maxnreg__(Kernel::max_registers) bounded_entry(const __grid_constant__ Kernel kernel) {
    kernel(position());
}

/// Returns the function that runs a kernel, with the most registers that the kernel declares, so that more of its warps
/// run at once. Without such a number it is compiled as programs compile theirs: with a bound, even one of 255, ptxas
/// would no longer try for few registers (52 instead of 48 in a kernel that calls `malloc`).
template <class Kernel>
constexpr auto entry_of() {
    if constexpr (requires { Kernel::max_registers; }) {
        return &bounded_entry<Kernel>;
    } else {
        return &plain_entry<Kernel>;
    }
}

/// Returns a failed result with the driver's text of the error, or a successful one.
inline launch_result to_result(cudaError_t error) {
    launch_result result;
    if (error != cudaSuccess) {
        result.ok = false;
        result.error = std::string("CUDA: ") + cudaGetErrorName(error) + ": " + cudaGetErrorString(error);
    }
    return result;
}

/// Launches the kernel on the executor's stream. Returns errors of this launch alone, such as a wrong shape. `<<<>>>`
/// would leave them to `cudaGetLastError`, which also returns what an earlier call of this thread has left; the kernel
/// would then run, and nothing wait for it. Errors of the running kernel appear when the stream is waited for.
template <class Kernel>
cudaError_t enqueue_on_cuda(const executor& on, grid shape, const Kernel& kernel) {
    void* arguments[] = {const_cast<void*>(static_cast<const void*>(&kernel))};  // the driver copies it, and only reads
    const cudaError_t launched = cudaLaunchKernel(entry_of<Kernel>(), dim3(shape.blocks), dim3(shape.threads_per_block),
                                                  arguments, 0, static_cast<cudaStream_t>(on.stream));
    if (launched != cudaSuccess) {
        (void)cudaGetLastError();  // the error is reported here and must not be reported again by the next call
    }
    return launched;
}

/// Launches the kernel on the executor's stream, and waits for this stream alone. Returns the driver's error if there
/// is one.
template <class Kernel>
launch_result launch_on_cuda(const executor& on, grid shape, const Kernel& kernel) {
    auto* stream = static_cast<cudaStream_t>(on.stream);
    const current_device here(on.device);
    if (here.error() != cudaSuccess) {
        return to_result(here.error());
    }
    // A pair whose events could not be made measures nothing.
    event_pair events(on.timed);
    events.begin(stream);
    const cudaError_t launched = enqueue_on_cuda(on, shape, kernel);
    events.end(stream);
    launch_result result = to_result(launched == cudaSuccess ? cudaStreamSynchronize(stream) : launched);
    result.microseconds = result.ok ? events.microseconds() : 0;
    return result;
}

}  // namespace detail
#endif

/// Launches `kernel`, and waits until it has ended.
///
/// Errors are returned in the result. On the emulated device: a collective whose lanes do not arrive, or a grid in
/// which no lane can continue. On CUDA: the driver's text. If the build has no CUDA support, an executor of kind `cuda`
/// fails. On CUDA, the launch is asynchronous to other streams.
template <class Kernel>
launch_result launch(const executor& on, grid shape, const Kernel& kernel) {
    static_assert(std::is_trivially_copyable_v<Kernel>, "a kernel is passed by value to the device");
    const launch_notice notice(static_cast<const char*>(__PRETTY_FUNCTION__));
    if (notice.refusal() != nullptr) {
        return detail::failed_launch(notice.refusal());
    }
    if (on.kind == device_kind::emulated) {
        const std::uint64_t began = emulated::clock_ns();
        launch_result result = emulated::run_grid(
            shape, [](const void* k, thread_position at) { (*static_cast<const Kernel*>(k))(at); }, &kernel, on.workers,
            on.recorder);
        result.microseconds = static_cast<double>(emulated::clock_ns() - began) * 1e-3;
        return result;
    }
#if ORCHARD_CUDA_SOURCE
    return detail::launch_on_cuda(on, shape, kernel);
#else
    return detail::failed_launch("this build has no CUDA support; use the emulated device");
#endif
}

/// Launches `kernel`, and on CUDA does not wait until it has ended: errors of the running kernel appear at the next
/// call that waits for the stream. On the emulated device it is `launch`. A launch watch is told of an end when the
/// call returns: tools assign a kernel to the range in which it was launched.
template <class Kernel>
launch_result enqueue(const executor& on, grid shape, const Kernel& kernel) {
#if ORCHARD_CUDA_SOURCE
    if (on.kind == device_kind::cuda) {
        static_assert(std::is_trivially_copyable_v<Kernel>, "a kernel is passed by value to the device");
        const launch_notice notice(static_cast<const char*>(__PRETTY_FUNCTION__));
        if (notice.refusal() != nullptr) {
            return detail::failed_launch(notice.refusal());
        }
        const current_device here(on.device);
        return detail::to_result(here.error() != cudaSuccess ? here.error()
                                                             : detail::enqueue_on_cuda(on, shape, kernel));
    }
#endif
    return launch(on, shape, kernel);
}

/// Loads `Kernel` on the executor's GPU now, so that its first launch does not wait for running kernels (the driver
/// loads lazily). Does nothing on the emulated device.
template <class Kernel>
launch_result preload(const executor& on) {
#if ORCHARD_CUDA_SOURCE
    if (on.kind == device_kind::cuda) {
        const current_device here(on.device);
        cudaFuncAttributes attributes{};
        const cudaError_t error =
            here.error() != cudaSuccess ? here.error() : cudaFuncGetAttributes(&attributes, detail::entry_of<Kernel>());
        if (error != cudaSuccess) {
            (void)cudaGetLastError();  // the error is reported here and must not be reported again by the next call
        }
        return detail::to_result(error);
    }
#endif
    (void)on;
    return {};
}

}  // namespace orchard::simt
