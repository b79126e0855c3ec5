// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `orchard oversubscribe`: passes over arrays that threads have allocated, in several patterns. Each
/// access is checked: element i of thread t's array has a value that is computed from both.
///
///     working-set   whole segments, a random quarter of them: each block of threads reads segment after segment
///     random        each thread another element of any array, independently
///     same-index    all lanes of a warp the same random index, each of its own array
///     sequential    each thread its own array, from the beginning
///     strided       each thread its own array, one element of each 64 KiB, then those behind them
///     graph-walk    any array; the next element depends on the value of the last one; few elements are met often, as
///                   the neighbours of a power-law graph are (density of index x: proportional to x^-3/4)
///
/// In the way `move`, one access of 64 is sampled for `heap::migrate`.

#include <cstdint>
#include <string_view>

#include "device/heap_ref.cuh"
#include "device/simt/launch.cuh"
#include "device/simt/random.hpp"

namespace orchard::oversubscribe {

using word = simt::plain<std::uint32_t>;

/// Identifies a pattern; `pattern_names` has their names in this order.
enum class pattern : std::uint32_t { working_set, random, same_index, sequential, strided, graph_walk };
inline constexpr std::string_view pattern_names[] = {"working-set", "random",  "same-index",
                                                     "sequential",  "strided", "graph-walk"};

/// Returns the value of element `i` of thread `t`'s array.
ORCHARD_INLINE std::uint32_t value_of(std::uint64_t t, std::uint64_t i) {
    return device::mix(static_cast<std::uint32_t>(i) + device::mix(static_cast<std::uint32_t>(t)));
}

/// The arrays of all threads, of `elements` elements each.
struct arrays_view {
    lane_array<word>* of_thread;  ///< [threads]
    std::uint64_t threads;
    std::uint64_t elements;
};

struct allocate_all {
    heap_ref heap;
    arrays_view arrays;
    layout how;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t < arrays.threads) {
            arrays.of_thread[t] = heap.allocate_array<word>(arrays.elements, how);
        }
    }
};
struct free_everything {
    heap_ref heap;
    arrays_view arrays;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        if (t < arrays.threads) {
            heap.free_array(arrays.of_thread[t]);
        }
    }
};

/// Writes all elements: the threads of a block write one thread's array together, so that linear arrays are written
/// with full bandwidth. Counts arrays that are missing.
struct fill_all {
    arrays_view arrays;
    simt::device_word<std::uint64_t>* nulls;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t t = at.block; t < arrays.threads; t += at.blocks) {
            const lane_array<word> a = arrays.of_thread[t];
            if (a.empty()) {
                if (at.thread == 0) {
                    (void)nulls->template fetch_add<simt::order::relaxed>(1);
                }
                continue;
            }
            for (std::uint64_t i = at.thread; i < arrays.elements; i += at.threads_per_block) {
                a[i].set(value_of(t, i));
            }
        }
    }
};

/// One pass. A lane that finds no more time ends: `late` counts them.
struct pass_over {
    heap_ref heap;
    arrays_view arrays;
    pattern which;
    std::uint64_t steps;     ///< accesses of a thread; of working_set not used
    std::uint64_t stride;    ///< strided: elements
    std::uint32_t seed;      ///< of what is random; another one in each pass, but for the working set's segments
    std::uint32_t set_seed;  ///< chooses the segments of the working set
    bool samples;
    std::uint64_t limit_ns;  ///< time after which a thread ends, counted from its own beginning
    simt::device_word<std::uint64_t>* wrong;
    simt::device_word<std::uint64_t>* late;

    /// Returns whether thread t's array, a segment, belongs to the working set.
    [[nodiscard]] ORCHARD_INLINE bool is_chosen(std::uint64_t t) const {
        return device::mix(static_cast<std::uint32_t>(t) + device::mix(set_seed)) % 4 == 0;
    }

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint64_t errors = 0;
        bool in_time = true;
        const std::uint64_t deadline = simt::clock_ns() + limit_ns;
        if (which == pattern::working_set) {
            in_time = read_segments(at, deadline, errors);
        } else if (at.global_thread() < arrays.threads) {
            in_time = read_steps(at.global_thread(), deadline, errors);
        }
        if (errors != 0) {
            (void)wrong->template fetch_add<simt::order::relaxed>(errors);
        }
        if (!in_time) {
            (void)late->template fetch_add<simt::order::relaxed>(1);
        }
    }

    /// Reads whole arrays, block by block; lane 0 of a warp samples. Returns false after the deadline.
    ORCHARD_INLINE bool read_segments(simt::thread_position at, std::uint64_t deadline, std::uint64_t& errors) const {
        for (std::uint64_t t = at.block; t < arrays.threads; t += at.blocks) {
            if (!is_chosen(t)) {
                continue;
            }
            if (simt::clock_ns() > deadline) {
                return false;
            }
            const lane_array<word> a = arrays.of_thread[t];
            std::uint32_t step = 0;
            for (std::uint64_t i = at.thread; i < arrays.elements; i += at.threads_per_block, ++step) {
                word& element = a[i];
                errors += element.get() != value_of(t, i) ? 1 : 0;
                if (samples && step % 64 == 0 && at.thread % simt::warp_size == 0) {
                    heap.note_access(&element);
                }
            }
        }
        return true;
    }

    /// Makes the steps of one thread. Returns false after the deadline, which is looked at every 256 steps.
    ORCHARD_INLINE bool read_steps(std::uint64_t own, std::uint64_t deadline, std::uint64_t& errors) const {
        const lane_array<word> mine = arrays.of_thread[own];
        std::uint32_t last = 0;
        for (std::uint64_t step = 0; step < steps; ++step) {
            if (step % 256 == 0 && simt::clock_ns() > deadline) {
                return false;
            }
            std::uint64_t t = own;
            std::uint64_t i = 0;
            if (which == pattern::random) {
                const std::uint64_t r = simt::random_bits(seed, own, step);
                t = (r >> 32) % arrays.threads;
                i = (r & 0xffffffffu) % arrays.elements;
            } else if (which == pattern::same_index) {
                i = simt::random_bits(seed, own / simt::warp_size, step) % arrays.elements;
            } else if (which == pattern::sequential) {
                i = step;
            } else if (which == pattern::strided) {
                const std::uint64_t places = (arrays.elements + stride - 1) / stride;
                i = (step % places * stride + step / places) % arrays.elements;
            } else {
                // The fourth power of a uniform number, of 64 bits in all; the last value makes each step depend on it.
                const std::uint64_t r = simt::random_bits(seed + last, own, step) >> 32;
                const std::uint64_t fourth = (r * r >> 32) * (r * r >> 32) >> 32;
                const std::uint64_t all = arrays.threads * arrays.elements;
                const std::uint64_t x = (all >> 32) * fourth + ((all & 0xffffffffu) * fourth >> 32);
                t = x / arrays.elements;
                i = x % arrays.elements;
            }
            word& element = t == own ? mine[i] : arrays.of_thread[t][i];
            last = element.get();
            errors += last != value_of(t, i) ? 1 : 0;
            if (samples && device::mix(static_cast<std::uint32_t>(step + own)) % 64 == 0) {
                heap.note_access(&element);
            }
        }
        return true;
    }
};

}  // namespace orchard::oversubscribe
