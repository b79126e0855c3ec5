// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Kernels of `orchard bench managed`: threads that read few places of large arrays, and threads that write pages.

#include "device/arrays/lane_array.cuh"
#include "device/heap_arrays_impl.cuh"
#include "device/heap_ref.cuh"

namespace orchard::bench {

using element = std::uint32_t;

/// The places that the threads read.
///
///     same_in_warp  all lanes of a warp read the same random index of their arrays: interleaved, they share pages
///     stride_64k    read k is at k times 64 KiB, the same for all lanes
///     own           each lane has random indices of its own: no layout lets lanes share pages
enum class places : int { same_in_warp, stride_64k, own };

/// Gives each thread an array, and keeps it in a list.
struct allocate_arrays {
    heap_ref heap;
    layout how;
    lane_array<element>* arrays;
    std::uint64_t threads;
    std::uint64_t count;  ///< elements of each

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < threads) {
            arrays[i] = heap.allocate_array<element>(count, how);
        }
    }
};

/// The arrays of such a list, as `read_places` takes them.
struct arrays_of_heap {
    const lane_array<element>* arrays;
    [[nodiscard]] ORCHARD_INLINE lane_array<element> of(std::uint64_t i) const { return arrays[i]; }
};

/// Arrays in one contiguous piece of memory, by index arithmetic: what a program would write without a heap.
/// Interleaved arrays belong to whole warps, so that the number of threads is a multiple of 32.
struct arrays_by_hand {
    element* base;
    std::uint64_t count;          ///< elements of each array
    std::uint32_t log_tile_size;  ///< elements of a tile; 0: linear

    /// The array of one thread.
    struct one {
        element* first;
        std::uint32_t log_tile_size;
        [[nodiscard]] ORCHARD_INLINE const element& operator[](std::uint64_t i) const {
            // A row of tiles has one for each of 32 lanes: 2^5.
            const std::uint64_t row = i >> log_tile_size << (log_tile_size + 5);
            return log_tile_size == 0 ? first[i] : first[row | (i & ((std::uint64_t{1} << log_tile_size) - 1))];
        }
    };
    /// Returns the array of thread `i`.
    [[nodiscard]] ORCHARD_INLINE one of(std::uint64_t i) const {
        const std::uint64_t warp = i / simt::warp_size;
        const std::uint64_t lane = i % simt::warp_size;
        return log_tile_size == 0 ? one{base + i * count, 0}
                                  : one{base + warp * simt::warp_size * count + (lane << log_tile_size), log_tile_size};
    }
};

/// The places that each thread reads in its array.
template <class Arrays>
struct reads_of {
    Arrays arrays;
    places which;
    std::uint32_t reads;
    std::uint32_t seed;
    std::uint64_t threads;
    std::uint64_t count;  ///< elements of each array, less than 2^32

    /// Returns the index of read number `read` of thread `i`.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t place(std::uint64_t i, std::uint32_t read) const {
        constexpr std::uint64_t stride = (64 << 10) / sizeof(element);
        if (which == places::stride_64k) {
            return read * stride % count;
        }
        const std::uint64_t reader = which == places::own ? i : i / simt::warp_size;
        const std::uint64_t bits = device::mix(static_cast<std::uint32_t>(reader * reads + read) ^ device::mix(seed));
        return (count & (count - 1)) == 0 ? bits & (count - 1) : bits * count >> 32;
    }
};

/// Each thread reads its places, one after the other: all contents are 0, and each place depends on the previous value.
/// A thread therefore has one fault under way at a time, as in code that follows pointers.
template <class Arrays>
struct read_places {
    reads_of<Arrays> what;
    element* sums;  ///< one for each thread

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= what.threads) {
            return;
        }
        const auto mine = what.arrays.of(i);
        element sum = 0;
        ORCHARD_NO_UNROLL
        for (std::uint32_t read = 0; read < what.reads; ++read) {
            sum += mine[what.place(i, read) + sum];
        }
        // The stored sum keeps the compiler from removing the reads.
        sums[i] = sum;
    }
};

/// Marks the OS pages of the places that `read_places` reads, without a read.
template <class Arrays>
struct mark_places {
    reads_of<Arrays> what;
    const char* base;                          ///< of the memory, a multiple of a page
    simt::device_word<std::uint32_t>* marked;  ///< a bit for each OS page from `base` on

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i >= what.threads) {
            return;
        }
        const auto mine = what.arrays.of(i);
        for (std::uint32_t read = 0; read < what.reads; ++read) {
            const auto page =
                static_cast<std::uint64_t>(reinterpret_cast<const char*>(&mine[what.place(i, read)]) - base) /
                os_page_bytes;
            (void)marked[page / 32].template fetch_or<simt::order::relaxed>(1u << page % 32);
        }
    }
};

/// Blocks of `bytes` each, as kernels get them.
struct large_blocks {
    char** blocks;
    std::uint64_t count;
    std::uint64_t bytes;  ///< a multiple of 4096
};

/// Allocates the blocks, one for each thread.
struct take_blocks {
    heap_ref heap;
    large_blocks list;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (const std::uint64_t i = at.global_thread(); i < list.count) {
            list.blocks[i] = static_cast<char*>(heap.malloc(list.bytes));
        }
    }
};

/// Writes a word of each page of the blocks, one page for each thread: its number, from 1 on.
struct write_pages {
    large_blocks list;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t pages = list.bytes / os_page_bytes;
        const std::uint64_t i = at.global_thread();
        if (i < list.count * pages && list.blocks[i / pages] != nullptr) {
            *reinterpret_cast<std::uint64_t*>(list.blocks[i / pages] + i % pages * os_page_bytes) = i + 1;
        }
    }
};

/// Returns true if a page's first word is a value that `write_pages` wrote to one of `pages` pages.
ORCHARD_FN constexpr bool was_written(std::uint64_t word, std::uint64_t pages) { return word - 1 < pages; }

/// Returns the word with the host's mark, a value that the GPU's memory has never held.
ORCHARD_FN constexpr std::uint64_t marked_by_host(std::uint64_t word, std::uint64_t pages) { return word + pages; }

/// Counts the pages of the blocks that hold a word with the host's mark, one page for each thread.
struct count_marked_pages {
    large_blocks list;
    simt::device_word<std::uint64_t>* found;  ///< pages, of all threads
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t pages = list.bytes / os_page_bytes;
        const std::uint64_t i = at.global_thread();
        if (i < list.count * pages && list.blocks[i / pages] != nullptr) {
            const auto* page =
                reinterpret_cast<const std::uint64_t*>(list.blocks[i / pages] + i % pages * os_page_bytes);
            const std::uint64_t all = list.count * pages;
            // Without the host's mark the word must be one that `write_pages` wrote.
            if (was_written(*page - marked_by_host(0, all), all)) {
                found->fetch_add<simt::order::relaxed>(1);
            }
        }
    }
};

/// Frees the blocks, one for each thread.
struct give_blocks {
    heap_ref heap;
    large_blocks list;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (const std::uint64_t i = at.global_thread(); i < list.count) {
            heap.free(list.blocks[i]);
        }
    }
};

}  // namespace orchard::bench
