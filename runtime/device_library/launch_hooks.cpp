// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The functions that a program's launches come to if it is linked with orchard::replace_malloc. The linker's option
/// `--wrap=NAME` turns each reference to NAME into one to `__wrap_NAME`, and `__real_NAME` into one to NAME
/// (cmake/device_library.cmake has the list). Each function prepares the default heap, and then does what it was called
/// for, with the same arguments. Without these functions a program would have to call `orchard_init` before its first
/// kernel.
///
/// nvcc 13 compiles `<<<>>>` to `__cudaLaunchKernel`, nvcc 12 to `cudaLaunchKernel`. The names with `_ptsz` are those
/// of programs with a default stream for each thread.

#include <cuda_runtime_api.h>

#include "runtime/default_heap/default_heap.hpp"

using orchard::detail::before_launch;

namespace {
/// Returns the stream that null stands for where each thread has a default stream of its own.
cudaStream_t of_thread(cudaStream_t stream) { return stream == nullptr ? cudaStreamPerThread : stream; }
}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker defines these names.
#define ORCHARD_WRAP(name, parameters, arguments, stream)                                                              \
    extern "C" cudaError_t __real_##name parameters;                                                                   \
    extern "C" cudaError_t __wrap_##name parameters {                                                                  \
        before_launch(stream);                                                                                         \
        return __real_##name arguments;                                                                                \
    }
#define ORCHARD_WRAP_BOTH(name, parameters, arguments, stream)                                                         \
    ORCHARD_WRAP(name, parameters, arguments, stream)                                                                  \
    ORCHARD_WRAP(name##_ptsz, parameters, arguments, of_thread(stream))

ORCHARD_WRAP_BOTH(cudaLaunchKernel,
                  (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t stream),
                  (function, grid, block, arguments, shared, stream), stream)
ORCHARD_WRAP_BOTH(cudaLaunchCooperativeKernel,
                  (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t stream),
                  (function, grid, block, arguments, shared, stream), stream)
ORCHARD_WRAP_BOTH(cudaLaunchKernelExC, (const cudaLaunchConfig_t* how, const void* function, void** arguments),
                  (how, function, arguments), how != nullptr ? how->stream : nullptr)
ORCHARD_WRAP_BOTH(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream), stream)
#if CUDART_VERSION >= 13000
ORCHARD_WRAP_BOTH(__cudaLaunchKernel,
                  (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                   cudaStream_t stream),
                  (kernel, grid, block, arguments, shared, stream), stream)
#endif

// A reset takes the memory of the GPU's default heap away, which its threads read. The next launch makes a heap again.
extern "C" cudaError_t __real_cudaDeviceReset();
extern "C" cudaError_t __wrap_cudaDeviceReset() {
    orchard::detail::before_reset();
    return __real_cudaDeviceReset();
}
// NOLINTEND(bugprone-reserved-identifier)
