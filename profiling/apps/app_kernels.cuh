// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels that all applications on real memory share: they allocate, fill, check and free arrays in parts.

#include <cstdint>

#include "profiling/uvm/applications/parts.cuh"
#include "profiling/uvm/applications/value_function.cuh"

namespace orchard::apps {

using applications::counter;
using applications::index;
using applications::number;
using applications::parts;

using word64 = simt::device_word<std::uint64_t>;
using wide = simt::plain<std::uint64_t>;

/// What kernels count, in plain device memory.
struct tally {
    word64 nulls;  ///< parts that the heap did not give
    word64 wrong;  ///< results that a check found wrong
    word64 total;  ///< a sum of the application's own
};

/// Set an element from a number, whatever its type.
template <class T>
ORCHARD_INLINE void put(simt::plain<T>& element, std::uint64_t value) {
    element.set(static_cast<T>(value));
}
/// Relaxed: the next launch reads it.
template <class T>
ORCHARD_INLINE void put(simt::device_word<T>& element, std::uint64_t value) {
    element.template store<simt::order::relaxed>(static_cast<T>(value));
}

/// Thread t allocates its part of an array; the lanes of a warp allocate together. Counts parts that are missing.
template <class T>
struct allocate_parts {
    heap_ref heap;
    lane_array<T>* of_thread;
    tally* counts;
    std::uint64_t threads;
    std::uint64_t per_thread;
    layout how;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t < threads) {
            of_thread[t] = heap.allocate_array<T>(per_thread, how);
            if (of_thread[t].empty()) {
                counts->nulls.template fetch_add<simt::order::relaxed>(1);
            }
        }
    }
};

/// Thread t frees its part.
template <class T>
struct free_parts {
    heap_ref heap;
    lane_array<T>* of_thread;
    std::uint64_t threads;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t < threads) {
            heap.free_array(of_thread[t]);
        }
    }
};

/// Sets element i to `initial(i)`, for all i below `count`. The grid has any number of threads.
template <class T, class Initial>
struct fill_parts {
    parts<T> to;
    std::uint64_t count;
    Initial initial;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = at.global_thread(); i < count; i += at.threads()) {
            put(to[i], static_cast<std::uint64_t>(initial(i)));
        }
    }
};

/// Sets one element, for tests.
template <class T>
struct set_element {
    parts<T> to;
    std::uint64_t element;
    std::uint64_t value;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == 0) {
            put(to[element], value);
        }
    }
};

/// Thread s looks at result s, or at a random one if there are more results than samples, and counts a wrong one.
/// `Check`: `bool operator()(std::uint64_t result) const`.
template <class Check>
struct check_samples {
    Check is_right;
    tally* counts;
    std::uint64_t results;
    std::uint64_t samples;
    std::uint64_t seed;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        constexpr std::uint64_t stream = 100;  // no application has it
        const std::uint64_t s = at.global_thread();
        if (s >= samples) {
            return;
        }
        const std::uint64_t result =
            samples == results ? s : static_cast<std::uint64_t>(applications::value(seed, stream, s, results));
        if (!is_right(result)) {
            counts->wrong.template fetch_add<simt::order::relaxed>(1);
        }
    }
};

// Initial values of arrays.

/// The same value everywhere.
struct constant {
    std::uint64_t what = 0;
    ORCHARD_FN std::uint64_t operator()(std::uint64_t) const { return what; }
};
/// Numbers from 0 to `bound` - 1.
struct below {
    std::uint64_t seed;
    std::uint64_t stream;
    std::uint64_t bound;
    ORCHARD_FN std::int32_t operator()(std::uint64_t i) const {
        return static_cast<std::int32_t>(applications::value(seed, stream, i, bound));
    }
};
/// Numbers from -8 to 8.
struct small_signed {
    std::uint64_t seed;
    std::uint64_t stream;
    ORCHARD_FN std::int32_t operator()(std::uint64_t i) const {
        return static_cast<std::int32_t>(applications::signed_value(seed, stream, i));
    }
};

}  // namespace orchard::apps
