// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Kernels of `orchard bench growth`: warps that allocate large blocks and write all of them. Times of single requests
/// are taken on the device, by its clock in nanoseconds, around `malloc`.

#include "device/heap_ref.cuh"

namespace orchard::bench {

/// The size of a request that needs no growth, in bytes: a page, whose memory `warm_up` has committed before.
inline constexpr std::uint64_t beside_bytes = 48 << 10;

/// The longest acceptable time of such a request. Longer ones are counted, since the longest alone may be an outlier.
inline constexpr std::uint64_t beside_late_ns = 100'000;

/// The counts of a launch; `growing_heap::take_counts` sets them to 0.
struct growth_counts {
    simt::device_word<std::uint64_t> begun;  ///< blocks that warps have begun to request
    simt::device_word<std::uint64_t> nulls;
    simt::device_word<std::uint64_t> wrong;              ///< words that differ from the written values
    simt::device_word<std::uint64_t> latest_ns;          ///< the longest time of a request
    simt::device_word<std::uint64_t> beside_ns;          ///< the longest time of a request that needs no growth
    simt::device_word<std::uint64_t> beside;             ///< number of these requests
    simt::device_word<std::uint64_t> beside_late;        ///< number of those that took longer than `beside_late_ns`
    simt::device_word<std::uint64_t> plain_ns;           ///< the longest time of an atomic on `plain`
    simt::device_word<std::uint64_t> finished;           ///< warps that have allocated all their blocks
    alignas(64) simt::device_word<std::uint64_t> plain;  ///< used by one warp only, on a line apart from the other
                                                         ///< counters
};

/// Blocks that warps divide among them, 32 at a time, one for each lane. Pointers are read by single lanes and contents
/// are accessed by whole warps, 32 consecutive words at once.
struct block_list {
    std::uint64_t** blocks;  ///< null: blocks are not recorded
    std::uint64_t count;
    std::uint64_t words;  ///< words of 8 B in each block; a multiple of 32

    /// Calls `act(own, i)` for every 32 blocks of this warp, with the lane's own block and its index; null if the lane
    /// has none. Called by all lanes.
    template <class Act>
    ORCHARD_INLINE void each(simt::thread_position at, Act act) const {
        const auto lane = static_cast<std::uint64_t>(simt::lane_id());
        ORCHARD_NO_UNROLL
        for (std::uint64_t first = at.global_thread() - lane; first < count; first += at.threads()) {
            act(first + lane < count ? blocks[first + lane] : nullptr, first + lane);
        }
    }
    /// Calls `act(words, i)` for the block of each lane in turn, with its index; null if the lane has none. Called by
    /// all lanes, each for its part of the words.
    template <class Act>
    ORCHARD_INLINE void each_block(std::uint64_t* own, std::uint64_t i, Act act) const {
        const auto address = reinterpret_cast<std::uint64_t>(own);
        ORCHARD_NO_UNROLL
        for (int lane = 0; lane < static_cast<int>(simt::warp_size); ++lane) {
            auto* const block = reinterpret_cast<std::uint64_t*>(simt::shuffle(~simt::lane_mask{0}, address, lane));
            if (block != nullptr) {
                act(block, i - static_cast<std::uint64_t>(simt::lane_id()) + static_cast<std::uint64_t>(lane));
            }
        }
    }
};

/// The first lanes of each warp allocate a block each, and the warp writes these blocks; this repeats until all blocks
/// are in use. The last warp allocates none of them. With `asks_beside`, the last two warps allocate none of them: one
/// repeats a plain atomic, in which the heap takes no part, and the other repeats a request that needs no growth.
struct take_and_write {
    heap_ref heap;
    block_list list;
    growth_counts* counts;
    std::uint32_t together;  ///< lanes that allocate at once
    bool asks_beside;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t others = at.threads() / simt::warp_size - (asks_beside ? 2 : 1);
        if (at.global_warp() < others) {
            take();
        } else if (asks_beside && at.global_warp() == others) {
            add_beside(others);
        } else if (asks_beside) {
            ask_beside(others);
        }
    }

    /// Lane 0 of a warp allocates and frees a block again and again, with pauses, until all other warps are finished.
    ORCHARD_INLINE void ask_beside(std::uint64_t others) const {
        ORCHARD_NO_UNROLL
        while (simt::lane_id() == 0 && counts->finished.load<simt::order::relaxed>() < others) {
            const std::uint64_t began = simt::clock_ns();
            void* const p = heap.malloc(beside_bytes);
            const std::uint64_t ns = simt::clock_ns() - began;
            counts->beside_ns.raise<simt::order::relaxed>(ns);
            counts->beside.fetch_add<simt::order::relaxed>(1);
            if (ns > beside_late_ns) {
                counts->beside_late.fetch_add<simt::order::relaxed>(1);
            }
            heap.free(p);
            simt::pause(1000);
        }
    }

    /// The control for `ask_beside`: the same loop with a plain atomic. A long time here is caused by the machine.
    ORCHARD_INLINE void add_beside(std::uint64_t others) const {
        ORCHARD_NO_UNROLL
        while (simt::lane_id() == 0 && counts->finished.load<simt::order::relaxed>() < others) {
            const std::uint64_t began = simt::clock_ns();
            // The condition is never true, but the clock is read only after the old value has arrived for the
            // comparison.
            if (counts->plain.fetch_add<simt::order::relaxed>(1) == ~std::uint64_t{0}) {
                return;
            }
            counts->plain_ns.raise<simt::order::relaxed>(simt::clock_ns() - began);
            simt::pause(1000);
        }
    }

    /// Returns the index of the first block that this warp requests next.
    ORCHARD_INLINE std::uint64_t next() const {
        const std::uint64_t first =
            simt::lane_id() == 0 ? counts->begun.fetch_add<simt::order::relaxed>(together) : std::uint64_t{0};
        return simt::shuffle(~simt::lane_mask{0}, first, 0);
    }

    /// Takes blocks and writes them, 1 to 32 at a time, until all are taken.
    ORCHARD_INLINE void take() const {
        ORCHARD_NO_UNROLL
        for (std::uint64_t first = next(); first < list.count; first = next()) {
            const auto lane = static_cast<std::uint64_t>(simt::lane_id());
            std::uint64_t* own = nullptr;
            if (lane < together && first + lane < list.count) {
                own = ask();
                list.blocks[first + lane] = own;
            }
            // The pointers of all lanes must be there before the warp writes the blocks together.
            simt::sync(~simt::lane_mask{0});
            list.each_block(own, first + lane, [&](std::uint64_t* block, std::uint64_t of) {
                ORCHARD_UNROLL
                for (std::uint64_t w = lane; w < list.words; w += simt::warp_size) {
                    // The value depends on block and word, so that a block at a wrong place is found.
                    block[w] = of ^ w;
                }
            });
        }
        simt::sync(~simt::lane_mask{0});
        if (simt::lane_id() == 0) {
            counts->finished.fetch_add<simt::order::relaxed>(1);
        }
    }

    /// Returns a block or null, and counts it with its time.
    ORCHARD_INLINE std::uint64_t* ask() const {
        const std::uint64_t began = simt::clock_ns();
        auto* const block = static_cast<std::uint64_t*>(heap.malloc(list.words * sizeof(std::uint64_t)));
        counts->latest_ns.raise<simt::order::relaxed>(simt::clock_ns() - began);
        if (block == nullptr) {
            counts->nulls.fetch_add<simt::order::relaxed>(1);
        }
        return block;
    }
};

/// One lane allocates a block as `ask_beside` does and frees it, so that a slab of its class exists and its memory is
/// committed before any request is timed.
struct warm_up {
    heap_ref heap;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        ORCHARD_NO_UNROLL
        for (std::uint32_t i = 0; at.thread == 0 && i < 16; ++i) {
            heap.free(heap.malloc(beside_bytes));
        }
    }
};

/// Writes all blocks again, with unchanged contents.
struct write_blocks {
    block_list list;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        list.each(at, [&](std::uint64_t* own, std::uint64_t i) {
            list.each_block(own, i, [&](std::uint64_t* block, std::uint64_t of) {
                ORCHARD_UNROLL
                for (auto w = static_cast<std::uint64_t>(simt::lane_id()); w < list.words; w += simt::warp_size) {
                    block[w] = of ^ w;
                }
            });
        });
    }
};

/// Checks the contents of the blocks, and counts the wrong words. Blocks that are null are passed over; they were
/// counted as such.
struct check_blocks {
    block_list list;
    growth_counts* counts;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        std::uint64_t wrong = 0;
        list.each(at, [&](std::uint64_t* own, std::uint64_t i) {
            list.each_block(own, i, [&](const std::uint64_t* block, std::uint64_t of) {
                ORCHARD_UNROLL
                for (auto w = static_cast<std::uint64_t>(simt::lane_id()); w < list.words; w += simt::warp_size) {
                    wrong += block[w] != (of ^ w) ? 1 : 0;
                }
            });
        });
        if (wrong != 0) {
            counts->wrong.fetch_add<simt::order::relaxed>(wrong);
        }
    }
};

/// A signal between reading warps and the host, in host memory.
using reader_signal = simt::host_word<std::uint64_t>;

/// Reads the blocks repeatedly, until the host signals the end or the time limit has passed. Its only purpose is its
/// traffic.
struct read_on {
    block_list list;
    reader_signal* over;     ///< not zero: stop
    reader_signal* reading;  ///< one for each warp: 1 as soon as it reads
    growth_counts* counts;
    std::uint64_t max_ns;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t began = simt::clock_ns();
        if (simt::lane_id() == 0) {
            // The host waits for this word of each warp, so that growth is timed only while all warps read.
            reading[at.global_warp()].store<simt::order::relaxed>(1);
        }
        std::uint64_t sum = 0;
        bool done = false;
        ORCHARD_NO_UNROLL
        while (!done) {
            list.each(at, [&](std::uint64_t* own, std::uint64_t i) {
                list.each_block(own, i, [&](const std::uint64_t* block, std::uint64_t) {
                    ORCHARD_UNROLL
                    for (auto w = static_cast<std::uint64_t>(simt::lane_id()); !done && w < list.words;
                         w += simt::warp_size) {
                        sum += block[w];
                    }
                    // The signal is host memory; it is read once for each block of 1 MiB.
                    done = done || is_over(began);
                });
            });
            done = done || is_over(began);
        }
        if (sum == 1) {  // never true, but compilers cannot know that
            counts->wrong.fetch_add<simt::order::relaxed>(1);
        }
    }

    /// Returns true if the kernel must end. Called by all lanes.
    [[nodiscard]] ORCHARD_INLINE bool is_over(std::uint64_t began) const {
        const bool mine = over->load<simt::order::relaxed>() != 0 || simt::clock_ns() - began > max_ns;
        return simt::ballot(~simt::lane_mask{0}, mine) != 0;
    }
};

/// Frees the blocks.
struct free_grown {
    heap_ref heap;
    block_list list;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        list.each(at, [&](std::uint64_t* own, std::uint64_t) { heap.free(own); });
    }
};

/// One lane makes `times` requests for which there is no memory. A request that succeeds is not freed.
struct ask_and_fail {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint32_t times;
    growth_counts* counts;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        ORCHARD_NO_UNROLL
        for (std::uint32_t i = 0; at.thread == 0 && i < times; ++i) {
            const std::uint64_t began = simt::clock_ns();
            if (heap.malloc(bytes) == nullptr) {
                counts->nulls.fetch_add<simt::order::relaxed>(1);
            }
            counts->latest_ns.raise<simt::order::relaxed>(simt::clock_ns() - began);
        }
    }
};

}  // namespace orchard::bench
