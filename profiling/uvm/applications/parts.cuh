// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Arrays whose elements are distributed over threads: each thread has allocated its part. The distribution is what an
/// application of a dynamic allocator has; a `cudaMalloc` would give one contiguous piece.

#include <cstdint>

#include "device/heap_ref.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "device/simt/launch.cuh"

namespace orchard::applications {

/// Elements of arrays: words whose reads and writes are recorded.
using number = simt::plain<std::int32_t>;
using index = simt::plain<std::uint32_t>;
using counter = simt::device_word<std::uint32_t>;

/// A view of an array in parts: element i is element i mod `per_thread` of the part of thread i / `per_thread`. For
/// kernels, and on the emulated device for the host.
template <class T>
struct parts {
    const lane_array<T>* of_thread;  ///< [threads]
    std::uint64_t per_thread;        ///< elements of each part

    ORCHARD_FN T& operator[](std::uint64_t i) const { return of_thread[i / per_thread][i % per_thread]; }
};

/// Waits for the lanes of the warp that are still running, as a warp does after a loop that some lanes leave earlier.
ORCHARD_INLINE void reconverge(simt::site where = simt::site::here()) { (void)simt::converge(where); }

/// Thread t allocates its part of an array; the lanes of a warp allocate together. Not recorded.
template <class T>
struct allocate_parts {
    heap_ref heap;
    lane_array<T>* of_thread;
    std::uint64_t threads;
    std::uint64_t per_thread;
    layout how;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t < threads) {
            of_thread[t] = heap.allocate_array<T>(per_thread, how);
        }
    }
};

}  // namespace orchard::applications
