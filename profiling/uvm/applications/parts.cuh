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
#include "profiling/uvm/applications/page_log.cuh"

namespace orchard::applications {

/// Elements of arrays: words whose reads and writes are recorded.
using number = simt::plain<std::int32_t>;
using index = simt::plain<std::uint32_t>;
using counter = simt::device_word<std::uint32_t>;

/// Returns the upper word of the product.
ORCHARD_INLINE std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
#if ORCHARD_CUDA_PASS
    return __umul64hi(a, b);
#else
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
#endif
}

/// The place of an element of an array in parts.
struct part_place {
    std::uint64_t thread;
    std::uint64_t element;  ///< of the thread's part
};
/// Returns the divisor's reciprocal for `place_in_parts`: (2^64 - 1) / `per_thread`, rounded down; 0 for 0.
ORCHARD_INLINE std::uint64_t reciprocal_of(std::uint64_t per_thread) {
    return per_thread == 0 ? 0 : ~std::uint64_t{0} / per_thread;
}
/// Returns `i` / `per_thread` and the remainder. Cost: a multiplication by the reciprocal, since a division of 64 bits
/// takes a GPU some 70 instructions. The product's quotient is at most 1 too small.
ORCHARD_INLINE part_place place_in_parts(std::uint64_t i, std::uint64_t per_thread, std::uint64_t reciprocal) {
    part_place at{high_product(i, reciprocal), 0};
    at.element = i - at.thread * per_thread;
    if (at.element >= per_thread) {
        at.element -= per_thread;
        ++at.thread;
    }
    return at;
}

/// True for words that several threads change at the same time.
template <class T>
struct is_shared_word {
    static constexpr bool value = false;
};
template <class T>
struct is_shared_word<simt::device_word<T>> {
    static constexpr bool value = true;
};

/// Counts one of 64 accesses for `heap::migrate`, by the element's index: a hash, so that every stride meets some.
struct access_sampler {
    simt::device_word<std::uint32_t>* counts = nullptr;  ///< of the heap's segments; null: nothing is counted
    const char* base = nullptr;                          ///< of the heap

    ORCHARD_INLINE void note(std::uint64_t i, const void* element) const {
        if (counts != nullptr && static_cast<std::uint32_t>(i) * 0x9e3779b9u >> 26 == 0) {
            (void)counts[static_cast<std::uint64_t>(static_cast<const char*>(element) - base) >> segment_shift]
                .template fetch_add<simt::order::relaxed>(1u);
        }
    }
};

/// A view of an array in parts: element i is element i mod `per_thread` of the part of thread i / `per_thread`. For
/// kernels, and on the emulated device for the host. All accesses of the applications' kernels to their arrays go
/// through `operator[]`.
template <class T>
struct parts {
    const lane_array<T>* of_thread = nullptr;  ///< [threads]
    std::uint64_t per_thread = 0;              ///< elements of each part
    std::uint64_t reciprocal = 0;              ///< `reciprocal_of(per_thread)`

    const page_log* log = nullptr;  ///< records accesses; null: none
    access_sampler sampler;

    parts() = default;
    ORCHARD_FN parts(const lane_array<T>* all, std::uint64_t each, const page_log* into = nullptr,
                     access_sampler samples = {})
        : of_thread{all}, per_thread{each}, reciprocal{reciprocal_of(each)}, log{into}, sampler{samples} {}

    /// Returns element `i`.
    ORCHARD_FN T& operator[](std::uint64_t i) const {
        const part_place at = place_in_parts(i, per_thread, reciprocal);
        T& found = of_thread[at.thread][at.element];
        if (log != nullptr) {
            log->note(&found, is_shared_word<T>::value);
        }
        sampler.note(i, &found);
        return found;
    }
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
