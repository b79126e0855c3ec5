// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `orchard bench pages`, for a heap or for the lower bound.

#include <cstdint>

#include "device/heap_ref.cuh"

namespace orchard::bench {

using simt::order;

/// The lower bound: a group takes memory from one counter, and free does nothing.
struct bump_ref {
    simt::device_word<std::uint64_t>* top = nullptr;
    char* base = nullptr;

    ORCHARD_INLINE void* malloc(std::uint64_t bytes) const {
        const simt::lane_mask here = simt::converge();
        const std::uint64_t each = (bytes + 15) / 16 * 16;
        std::uint64_t first = 0;
        if (device::is_leader(here)) {
            first = top->fetch_add<order::relaxed>(each * static_cast<std::uint64_t>(simt::popcount(here)));
        }
        return base + device::from_leader(here, first) + each * static_cast<std::uint64_t>(simt::rank_in(here));
    }
    ORCHARD_INLINE void free(void*) const {}
};

/// The lanes of a warp that allocate, and their sizes.
enum class lanes_asking : std::uint32_t { all, one, seven, each_its_class };

/// The request of one thread.
struct request {
    std::uint32_t least = 0;
    std::uint32_t most = 0;
    lanes_asking asking = lanes_asking::all;

    ORCHARD_INLINE std::uint32_t bytes(std::uint32_t i) const {
        if (asking == lanes_asking::each_its_class) {
            return class_bytes(i % simt::warp_size);
        }
        const std::uint32_t span = most - least + 1;
        return span == 1 ? least : least + device::mix(i * 0x9e3779b9u + 12345) % span;
    }
    ORCHARD_INLINE bool asks(std::uint32_t i) const {
        const std::uint32_t warp = i / simt::warp_size;
        const std::uint32_t lane = i % simt::warp_size;
        if (asking == lanes_asking::one) {
            return lane == device::mix(warp) % simt::warp_size;
        }
        if (asking == lanes_asking::seven) {
            // Seven lanes: the first is random, and the distance to the next is random and odd.
            const std::uint32_t random = device::mix(warp * 77 + 1);
            return (lane - random) * (random >> 8 | 1) % simt::warp_size < 7;
        }
        return true;
    }
};

template <class Heap>
struct allocate_kernel {
    Heap heap;
    request what;
    void** out;
    std::uint32_t threads;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i < threads) {
            void* p = nullptr;
            if (what.asks(i)) {
                p = heap.malloc(what.bytes(i));
            }
            out[i] = p;
        }
    }
};

/// As above with one size, which the compiler knows to be the same in all threads.
template <class Heap>
struct allocate_fixed_kernel {
    Heap heap;
    std::uint32_t bytes;
    void** out;
    std::uint32_t threads;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i < threads) {
            out[i] = heap.malloc(bytes);
        }
    }
};

template <class Heap>
struct free_kernel {
    Heap heap;
    void** out;
    std::uint32_t threads;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i < threads) {
            void* p = out[i];
            // Lets the lower bound also read its pointer.
            if (reinterpret_cast<std::uintptr_t>(p) == 1) {
                out[i] = nullptr;
            }
            heap.free(p);
        }
    }
};

/// Frees the blocks that a list names.
struct free_some_kernel {
    heap_ref heap;
    void** blocks;
    const std::uint32_t* which;
    std::uint32_t count;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i < count) {
            heap.free(blocks[which[i]]);
        }
    }
};

struct empty_kernel {
    ORCHARD_FN void operator()(simt::thread_position) const {}
};

/// Rounds of malloc, write and free.
struct churn_kernel {
    heap_ref heap;
    request what;
    std::uint32_t rounds;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        for (std::uint32_t round = 0; round < rounds; ++round) {
            auto* p = static_cast<std::uint64_t*>(heap.malloc(what.bytes(i * 64 + round)));
            if (p != nullptr) {
                *p = i;
                heap.free(p);
            }
        }
    }
};

/// Writes (or checks) each block's owner in its first and last word.
struct stamp_kernel {
    void** blocks;
    request what;
    std::uint32_t threads;
    simt::device_word<std::uint64_t>* wrong;  ///< null: write
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i >= threads || blocks[i] == nullptr) {
            return;
        }
        auto* words = static_cast<std::uint64_t*>(blocks[i]);
        const std::uint32_t last = what.bytes(i) / 8 - 1;
        if (wrong == nullptr) {
            words[0] = words[last] = i;
        } else if (words[0] != i || words[last] != i) {
            wrong->fetch_add<order::relaxed>(1);
        }
    }
};

}  // namespace orchard::bench
