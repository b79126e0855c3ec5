// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The SIMT seam's macros and basic types. Only `device/simt` uses `__CUDACC__` and `__CUDA_ARCH__`.
///
/// The seam is the interface between Orchard's code and the machine that runs it:
///
///     lane.cuh      lanes of a warp, collectives, clock        address.cuh   address arithmetic
///     atomic.cuh    shared words, fences                       touch.cuh     references to user memory
///     launch.cuh    kernels                                    assert.cuh, mutation.cuh   for tests
///     ---------------------------------------------------------------------------------------------------
///     GPU code      intrinsics of nvcc, ptx.cuh
///     host code     emulated/hooks.hpp. Each call takes the first of these that applies to its thread:
///                     explore/    `current_simulation` is set: one thread, logical time, weak memory
///                     emulated/   `current_lane` is set: a fiber, one of many lanes on this host thread
///                     otherwise   a host thread, which acts as a warp of one lane
///
/// nvcc compiles a source once for the host and once for each GPU architecture. `__CUDACC__` is defined in all of these
/// passes, `__CUDA_ARCH__` only in the passes for a GPU. The host pass of a CUDA source therefore contains the emulated
/// device, and a program that was built with CUDA can run its kernels on either device.
///
/// | macro                 | meaning                                                                    |
/// |-----------------------|----------------------------------------------------------------------------|
/// | `ORCHARD_FN`          | a function that runs on the host, on the emulated device and on CUDA       |
/// | `ORCHARD_INLINE`      | the same, always inlined: for the one-line functions of the hot path       |
/// | `ORCHARD_NOINLINE`    | the same, never inlined: for slow paths, to keep the hot path small        |
/// | `ORCHARD_UNROLL`      | before a loop that is to be unrolled on CUDA                               |
/// | `ORCHARD_NO_UNROLL`   | before a loop that is not to be, to save registers                         |
/// | `ORCHARD_CUDA_PASS`   | 1 while code for a CUDA device is generated, else 0                        |
/// | `ORCHARD_CUDA_SOURCE` | 1 where the compiler understands `<<<>>>`, else 0                          |
/// | `ORCHARD_SEPARABLE`   | 1 if its GPU code may call functions of other objects (-rdc=true), else 0  |

#include <cstdint>

#include "device/simt/separable.cuh"

#if defined(__CUDACC__)
#define ORCHARD_CUDA_SOURCE 1
#define ORCHARD_FN __host__ __device__
#define ORCHARD_INLINE __host__ __device__ __forceinline__
// In the pass for the host, the compiler of host code decides, which would warn of inline functions with the attribute.
#if defined(__CUDA_ARCH__)
#define ORCHARD_NOINLINE __host__ __device__ __noinline__
#else
#define ORCHARD_NOINLINE __host__ __device__
#endif
#else
#define ORCHARD_CUDA_SOURCE 0
#define ORCHARD_FN
#define ORCHARD_INLINE inline
#define ORCHARD_NOINLINE
#endif

#if __cplusplus < 201703L
#error "Orchard's device code needs C++17: compile with -std=c++17 or later"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "Orchard needs compute capability 8.0: compile for it or a later one, as in nvcc -arch=sm_80"
#endif

#if defined(__CUDA_ARCH__)
#define ORCHARD_CUDA_PASS 1
#define ORCHARD_UNROLL _Pragma("unroll")
#define ORCHARD_NO_UNROLL _Pragma("unroll 1")
#else
#define ORCHARD_CUDA_PASS 0
#define ORCHARD_UNROLL
#define ORCHARD_NO_UNROLL
#endif

namespace orchard::simt {

/// One bit for each lane of a warp; bit i is lane i.
using lane_mask = std::uint32_t;

/// The number of lanes of a warp, on both devices.
inline constexpr int warp_size = 32;

/// A source location, which the emulated device records to report which lanes wait where. Free on CUDA.
struct site {
    const char* file;
    int line;

    /// Returns the location of the call in which it is a default argument.
    static ORCHARD_FN constexpr site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

/// The position of a thread in its grid. Grids are one-dimensional, which is all that Orchard's kernels need.
struct thread_position {
    std::uint32_t block;              ///< index of the block in the grid
    std::uint32_t thread;             ///< index of the thread in its block
    std::uint32_t threads_per_block;  ///< threads of one block
    std::uint32_t blocks;             ///< blocks of the grid

    /// Returns the index of the thread in the grid.
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t global_thread() const {
        return std::uint64_t{block} * threads_per_block + thread;
    }
    /// Returns the number of threads of the grid.
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t threads() const {
        return std::uint64_t{blocks} * threads_per_block;
    }
    /// Returns the index of the warp in the grid. A partial warp at the end of a block counts as a whole one: blocks of
    /// 40 threads have two warps each, so that thread 33 of block 1 is in warp 3.
    [[nodiscard]] ORCHARD_FN constexpr std::uint64_t global_warp() const {
        return std::uint64_t{block} * ((threads_per_block + warp_size - 1) / warp_size) + thread / warp_size;
    }
};

/// The memory order of an atomic access, as in C++. Sequential consistency is not among them.
enum class order : int { relaxed, acquire, release, acq_rel };

/// The threads for which an atomic access is ordered. Each scope includes those before it; the weak memory compares
/// them by their values.
enum class scope : int {
    block,   ///< threads of one block
    device,  ///< all threads of one device; the word is in device memory
    system,  ///< device and host; the word is in host-visible memory
};

}  // namespace orchard::simt
