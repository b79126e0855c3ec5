// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The alternatives that `orchard bench access` compares: the ways in which a thread accesses the elements of its
/// array, and the orders of the accesses. All ways address the same bytes of an array.

#include <cstdint>

#include "device/arrays/lane_array.cuh"
#include "device/arrays/lane_ptr.cuh"
#include "device/simt/address.cuh"
#include "device/simt/config.cuh"
#include "device/state/heap_state.cuh"
#include "uvm/geometry/layout.hpp"

namespace orchard::bench::access {

/// An element of 16 B, as one load.
struct alignas(16) quad {
    std::uint32_t words[4];
};

/// The difference between consecutive words of an array: odd, so that an element at a wrong place is detected.
inline constexpr std::uint32_t content_step = 97;

/// The number of 4 B words of an element.
template <class T>
inline constexpr std::uint32_t words_of = sizeof(T) / 4;

/// Returns the word with which the contents of one thread's array begin.
ORCHARD_INLINE std::uint32_t seed_of(std::uint32_t thread, std::uint32_t salt) {
    return device::mix(thread + 0x9e3779b9u * salt);
}
/// Returns the expected value of element `i`.
template <class T>
ORCHARD_INLINE T content(std::uint32_t seed, std::uint32_t i) {
    if constexpr (words_of<T> == 1) {
        return seed + i * content_step;
    } else {
        const std::uint32_t first = seed + i * (4 * content_step);
        return {{first, first + content_step, first + 2 * content_step, first + 3 * content_step}};
    }
}
/// Return the sum of an element's words; every word of it must therefore be loaded.
ORCHARD_INLINE std::uint32_t sum_of(std::uint32_t x) { return x; }
ORCHARD_INLINE std::uint32_t sum_of(const quad& x) { return x.words[0] + x.words[1] + x.words[2] + x.words[3]; }
/// Return the word that holds a link of a chain.
ORCHARD_INLINE std::uint32_t first_word(std::uint32_t x) { return x; }
ORCHARD_INLINE std::uint32_t first_word(const quad& x) { return x.words[0]; }

// --- ways: `view` converts an array to the object that is indexed ---

/// By `lane_array::operator[]`, which reads the layout from the array.
struct by_array {
    static constexpr const char* name = "lane_array";
    template <class T>
    static ORCHARD_INLINE lane_array<T> view(const lane_array<T>& a) {
        return a;
    }
};

/// By the pointer to the first element, which carries the layout along.
struct by_pointer {
    static constexpr const char* name = "lane_ptr";
    template <class T>
    static ORCHARD_INLINE lane_ptr<T> view(const lane_array<T>& a) {
        return a.data();
    }
};

/// In contiguous pieces, by `lane_array::for_each_tile`; in ascending order only. The kernels treat it apart, since it
/// has no index.
struct by_tile {
    static constexpr const char* name = "for_each_tile";
};

/// A plain C++ pointer, for linear arrays. It is assumed to point to global memory, as in the lane views.
struct by_raw_pointer {
    static constexpr const char* name = "raw pointer";
    template <class T>
    static ORCHARD_INLINE T* view(const lane_array<T>& a) {
        return simt::global_pointer<T>(reinterpret_cast<std::uint64_t>(&a[0u]));
    }
};

/// The formula written by hand, with the tile and the number of lanes known at compile time.
template <tile Tile, std::uint32_t Width>
struct by_hand {
    static constexpr const char* name = "by hand";

    template <class T>
    struct indexed {
        T* chunk;                ///< the first element of the warp chunk
        std::uint32_t position;  ///< of the thread's array among those of the sub-array
        ORCHARD_INLINE T& operator[](std::uint32_t i) const {
            constexpr std::uint32_t in_tile = bytes_of(Tile) / sizeof(T);
            return chunk[(i / in_tile * Width + position) * in_tile + i % in_tile];
        }
    };
    template <class T>
    static ORCHARD_INLINE indexed<T> view(const lane_array<T>& a) {
        return {simt::global_pointer<T>(reinterpret_cast<std::uint64_t>(a.chunk())), a.position()};
    }
};

// --- lengths of the arrays ---

/// Whether all threads have arrays of one length, a power of two, or each has one of its own.
enum class lengths { equal, unequal };

/// Returns the elements of a thread's array, where lengths differ: `least` to almost 2 * `least`, a multiple of 4. At
/// random, but always the same for one thread. `least` is a power of two.
ORCHARD_INLINE std::uint32_t own_count(std::uint32_t least, std::uint32_t thread) {
    return least + (device::mix(thread ^ 0x5bd1e995u) & (least - 1) & ~3u);
}

// --- orders: the index of a thread's i-th access, for i = 0, 1, 2, ... in turn ---

/// Element by element.
struct sequential {
    ORCHARD_INLINE sequential(std::uint32_t, std::uint32_t) {}
    ORCHARD_INLINE std::uint32_t index(std::uint32_t i) { return i; }
};

/// Every 17th element, wrapping around until all elements were accessed; the same indices for all lanes. 17 is odd, so
/// that all elements of an array are accessed once each. The size is a power of two.
struct strided {
    std::uint32_t last;

    ORCHARD_INLINE strided(std::uint32_t count, std::uint32_t) : last{count - 1} {}
    ORCHARD_INLINE std::uint32_t index(std::uint32_t i) { return i * 17 & last; }
};

/// Returns the next state of a linear congruential generator. Its upper bits serve: the lower ones have short periods.
ORCHARD_INLINE std::uint32_t next_random(std::uint32_t state) { return state * 1664525 + 1013904223; }

/// The order of a linear congruential generator; each thread has its own start, so that the lanes of a warp access
/// unrelated elements. The size is a power of two.
struct random {
    std::uint32_t last;
    std::uint32_t state;

    ORCHARD_INLINE random(std::uint32_t count, std::uint32_t thread) : last{count - 1}, state{device::mix(~thread)} {}
    ORCHARD_INLINE std::uint32_t index(std::uint32_t) {
        state = next_random(state);
        return state >> 16 & last;
    }
};

/// The same two orders for arrays of any length, up to 2^16 elements for the random one.
struct strided_in_any {
    std::uint32_t count;
    std::uint32_t at;

    ORCHARD_INLINE strided_in_any(std::uint32_t elements, std::uint32_t) : count{elements}, at{0} {}
    ORCHARD_INLINE std::uint32_t index(std::uint32_t) {
        const std::uint32_t found = at;
        at = at + 17 < count ? at + 17 : at + 17 - count;
        return found;
    }
};
struct random_in_any {
    std::uint32_t count;
    std::uint32_t state;

    ORCHARD_INLINE random_in_any(std::uint32_t elements, std::uint32_t thread)
        : count{elements}, state{device::mix(~thread)} {}
    ORCHARD_INLINE std::uint32_t index(std::uint32_t) {
        state = next_random(state);
        return (state >> 16) * count >> 16;
    }
};

/// Returns the element after `i` in a chain through all `last` + 1 elements, in an order that no prefetcher recognises.
/// The chain visits every element before it returns to the first.
///
/// Source: Hull and Dobell, SIAM Review 1962: the period is 2^n with a = 1 mod 4 and an odd c.
ORCHARD_INLINE std::uint32_t next_in_chain(std::uint32_t i, std::uint32_t last) { return (i * 5 + 17) & last; }

/// Selects the half of a link that leads to the next element: its index, or for plain pointers its distance in elements
/// from the array's first one.
///
///      31                        16 15                          0
///     | distance from the first    | index of the next element   |
template <class Way>
ORCHARD_INLINE std::uint32_t follow(std::uint32_t link) {
    return link & 0xffff;
}
template <>
ORCHARD_INLINE std::uint32_t follow<by_raw_pointer>(std::uint32_t link) {
    return link >> 16;
}

}  // namespace orchard::bench::access
