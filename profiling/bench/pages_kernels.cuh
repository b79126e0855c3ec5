// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `orchard bench pages`, for a heap or for the lower bound. Kernels are templates of the heap, so that
/// both run the same code around the call; the difference of their times is that of the calls.

#include <cstdint>

#include "device/heap_ref.cuh"

namespace orchard::bench {

using simt::order;

/// The lower bound: a group takes memory from one counter by one atomic, rounded up to 16 B a lane, and free does
/// nothing. An allocator that hands out different addresses to all lanes of a warp cannot do with less than one atomic
/// a warp if it keeps one counter. With many warps this counter is contended, so that a heap with many counters can be
/// faster.
struct bump_ref {
    simt::device_word<std::uint64_t>* top = nullptr;  ///< bytes handed out; one word for all threads
    char* base = nullptr;                             ///< added to every address; never accessed

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
///
///     all             every lane, all with the sizes of the request
///     one             one lane, another one in each warp
///     seven           seven lanes, at other places in each warp
///     each_its_class  every lane, lane i with the size of class i: 32 classes in one warp, the least sharing possible
enum class lanes_asking : std::uint32_t { all, one, seven, each_its_class };

/// The request of one thread; computed from its number, so that the kernel that stamps and checks finds the same size.
struct request {
    std::uint32_t least = 0;  ///< bytes
    std::uint32_t most = 0;   ///< bytes, included
    lanes_asking asking = lanes_asking::all;

    /// Returns the bytes that thread `i` requests.
    ORCHARD_INLINE std::uint32_t bytes(std::uint32_t i) const {
        if (asking == lanes_asking::each_its_class) {
            return class_bytes(i % simt::warp_size);
        }
        const std::uint32_t span = most - least + 1;
        return span == 1 ? least : least + device::mix(i * 0x9e3779b9u + 12345) % span;
    }
    /// Returns whether thread `i` requests at all; depends on the number of its warp.
    ORCHARD_INLINE bool asks(std::uint32_t i) const {
        const std::uint32_t warp = i / simt::warp_size;
        const std::uint32_t lane = i % simt::warp_size;
        if (asking == lanes_asking::one) {
            return lane == device::mix(warp) % simt::warp_size;
        }
        if (asking == lanes_asking::seven) {
            // Seven lanes: the first is random, and the distance to the next is random and odd.
            const std::uint32_t random = device::mix(warp * 77 + 1);
            // An odd distance visits all 32 lanes before any comes again, so that exactly seven lanes pass.
            return (lane - random) * (random >> 8 | 1) % simt::warp_size < 7;
        }
        return true;
    }
};

/// The kernel that allocates. A thread that does not ask stores null, which free then ignores.
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

/// As above with one size, which the compiler knows to be the same in all threads. The rows that are compared with the
/// floor use it.
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
            // Lets the lower bound also read its pointer: its free ignores the argument, so that the compiler would
            // remove the load. No address is 1.
            if (reinterpret_cast<std::uintptr_t>(p) == 1) {
                out[i] = nullptr;
            }
            heap.free(p);
        }
    }
};

/// Frees the blocks that a list of indices names.
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

/// Rounds of malloc, write and free; every round of a thread asks for another size. The write stands for the use of the
/// block.
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

/// Writes (or checks) each block's owner in its first and last word of 8 B. If two blocks overlap there, one of them
/// has the other one's number. Sizes are at least 16 B.
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
