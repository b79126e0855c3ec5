// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernels of `orchard bench access`. The timed kernels do the same work in every way of access: the same number of
/// accesses, in the same batches, of the same bytes. Allocation, contents and checks are kernels of their own, so that
/// the timed ones do nothing else.

#include <cstdint>
#include <type_traits>

#include "device/heap_ref.cuh"
#include "profiling/bench/access_ways.cuh"

namespace orchard::bench::access {

using simt::order;
using word64 = simt::device_word<std::uint64_t>;

/// The parameters of all kernels of one layout.
template <class T, lengths Lengths = lengths::equal>
struct job {
    lane_array<T>* arrays;   ///< one for each thread
    std::uint32_t* results;  ///< one for each thread
    word64* wrong;           ///< number of failed checks
    std::uint32_t threads;
    std::uint32_t count;  ///< elements of each array, or the least of them: a power of two, at least a batch
    std::uint32_t salt;   ///< selects the contents of the arrays, to read or to write

    /// Returns the elements of a thread's array, a multiple of a batch.
    [[nodiscard]] ORCHARD_INLINE std::uint32_t count_of(std::uint32_t thread) const {
        return Lengths == lengths::equal ? count : own_count(count, thread);
    }
};

/// The number of accesses that a thread has in flight. With all threads of a processor this is more than memory's
/// latency requires, and it needs few registers.
template <class T>
inline constexpr std::uint32_t batch = words_of<T> == 1 ? 4 : 2;

/// Registers of a timed kernel: few enough that 2,048 threads run at once on a processor, in every way of access.
/// Unequal lanes are long, and have fewer threads; their table would need a stack with 32.
template <lengths Lengths>
inline constexpr int registers_of_timed = Lengths == lengths::equal ? 32 : 64;

/// Each thread allocates its array; the lanes of a warp together.
template <class T, lengths Lengths = lengths::equal>
struct allocate_kernel {
    heap_ref heap;
    layout how;
    job<T, Lengths> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i < of.threads) {
            of.arrays[i] = heap.allocate_array<T>(of.count_of(i), how);
        }
    }
};

template <class T, lengths Lengths = lengths::equal>
struct free_kernel {
    heap_ref heap;
    job<T, Lengths> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto i = static_cast<std::uint32_t>(at.global_thread());
        if (i < of.threads) {
            heap.free_array(of.arrays[i]);
        }
    }
};

/// Returns the sum of `count` elements in the order `Order`. A batch is read before any of it is added, so that its
/// reads are in flight together. `count` is a multiple of the batch.
template <class T, class View, class Order>
ORCHARD_INLINE std::uint32_t sum_in_batches(const View& view, std::uint32_t count, Order& in_turn) {
    std::uint32_t sum = 0;
    // Not unrolled: the batch alone says how many reads are in flight, in every way of access.
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = 0; i < count; i += batch<T>) {
        T read[batch<T>];
        ORCHARD_UNROLL
        for (std::uint32_t k = 0; k < batch<T>; ++k) {
            read[k] = view[in_turn.index(i + k)];
        }
        ORCHARD_UNROLL
        for (std::uint32_t k = 0; k < batch<T>; ++k) {
            sum += sum_of(read[k]);
        }
    }
    return sum;
}

/// Returns the sum over one piece, which may be shorter than a batch, or end within one.
template <class T>
ORCHARD_INLINE std::uint32_t sum_of_piece(const tile_span<T>& piece) {
    const auto count = static_cast<std::uint32_t>(piece.count);
    const std::uint32_t whole = count & ~(batch<T> - 1);
    sequential in_turn(0, 0);
    std::uint32_t sum = sum_in_batches<T>(piece.data, whole, in_turn);
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = whole; i < count; ++i) {
        sum += sum_of(piece.data[i]);
    }
    return sum;
}

/// Each thread reads `count` elements of its array, and stores their sum: without a result, the compiler would remove
/// the reads.
template <class T, class Way, class Order, lengths Lengths = lengths::equal>
struct read_kernel {
    static constexpr int max_registers = registers_of_timed<Lengths>;
    job<T, Lengths> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        // A copy in registers; the view's parameters are read from memory once.
        const lane_array<T> mine = of.arrays[thread];
        std::uint32_t sum = 0;
        if constexpr (std::is_same_v<Way, by_tile>) {
            static_assert(std::is_same_v<Order, sequential>);
            mine.for_each_tile([&](const tile_span<T>& piece) { sum += sum_of_piece(piece); });
        } else {
            Order in_turn(of.count_of(thread), thread);
            sum = sum_in_batches<T>(Way::view(mine), of.count_of(thread), in_turn);
        }
        of.results[thread] = sum;
    }
};

/// Writes `count` elements with the contents of the elements from `first` on. In batches, as the reads.
template <class T, class View>
ORCHARD_INLINE void write_in_batches(const View& view, std::uint32_t count, std::uint32_t seed, std::uint32_t first) {
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = 0; i < count; i += batch<T>) {
        ORCHARD_UNROLL
        for (std::uint32_t k = 0; k < batch<T>; ++k) {
            view[i + k] = content<T>(seed, first + i + k);
        }
    }
}

/// Writes one piece, as `sum_of_piece` reads it.
template <class T>
ORCHARD_INLINE void write_piece(const tile_span<T>& piece, std::uint32_t seed) {
    const auto count = static_cast<std::uint32_t>(piece.count);
    const auto first = static_cast<std::uint32_t>(piece.first);
    const std::uint32_t whole = count & ~(batch<T> - 1);
    write_in_batches<T>(piece.data, whole, seed, first);
    ORCHARD_NO_UNROLL
    for (std::uint32_t i = whole; i < count; ++i) {
        piece.data[i] = content<T>(seed, first + i);
    }
}

/// Each thread writes its array, in ascending order.
template <class T, class Way, lengths Lengths = lengths::equal>
struct write_kernel {
    /// With pieces of 16 B elements, 32 registers would not suffice without a stack.
    static constexpr int max_registers =
        std::is_same_v<Way, by_tile> && words_of<T> > 1 ? 40 : registers_of_timed<Lengths>;
    job<T, Lengths> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        const lane_array<T> mine = of.arrays[thread];
        const std::uint32_t seed = seed_of(thread, of.salt);
        if constexpr (std::is_same_v<Way, by_tile>) {
            mine.for_each_tile([&](const tile_span<T>& piece) { write_piece(piece, seed); });
        } else {
            write_in_batches<T>(Way::view(mine), of.count_of(thread), seed, 0);
        }
    }
};

/// Follows the chain through the array for `steps` reads, each of which returns the position of the next. No read can
/// start before the one before it has ended: the time of a step is the latency of the read and of its index arithmetic.
template <class T, class Way>
struct chase_kernel {
    job<T> of;
    std::uint32_t steps;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        // Copied to a local variable, as in the other kernels. With the array in memory, nvcc 13.0 took more than 25 s
        // to compile `data()` and this loop, instead of two.
        const lane_array<T> mine = of.arrays[thread];
        const auto view = Way::view(mine);
        std::uint32_t link = 0;
        ORCHARD_NO_UNROLL
        for (std::uint32_t i = 0; i < steps; ++i) {
            link = first_word(view[follow<Way>(link)]);
        }
        of.results[thread] = follow<by_array>(link);
    }
};

// --- untimed: contents and checks ---

/// Writes the chain into each array: element i holds where the next one is, as an index and as a distance (`follow`).
/// The distance is between addresses, so that it is right in every layout.
template <class T>
struct make_chain_kernel {
    job<T> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        const lane_array<T> mine = of.arrays[thread];
        for (std::uint32_t i = 0; i < of.count; ++i) {
            const std::uint32_t next = next_in_chain(i, of.count - 1);
            const auto behind = static_cast<std::uint32_t>(&mine[next] - &mine[0u]);
            // Only the first word of an element is a link. The distance is less than 32 * `count` elements, which fits
            // its 16 bits.
            T link = content<T>(0, 0);
            *reinterpret_cast<std::uint32_t*>(&link) = behind << 16 | next;
            mine[i] = link;
        }
    }
};

/// Counts threads whose result is not `expected`, and overwrites all results, so that none is taken for a result of the
/// next launch.
template <class Job>
ORCHARD_INLINE void compare(const Job& of, std::uint32_t thread, std::uint32_t expected) {
    if (of.results[thread] != expected) {
        of.wrong->template fetch_add<order::relaxed>(1);  // only a count
    }
    of.results[thread] = ~expected;
}

/// Checks the sums of `read_kernel` against the expected contents, without reading an element.
template <class T, class Order, lengths Lengths = lengths::equal>
struct check_sums_kernel {
    job<T, Lengths> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        const std::uint32_t seed = seed_of(thread, of.salt);
        // The same order as the timed kernel's, so that also the random one visits the same elements.
        Order in_turn(of.count_of(thread), thread);
        std::uint32_t sum = 0;
        for (std::uint32_t i = 0; i < of.count_of(thread); ++i) {
            sum += sum_of(content<T>(seed, in_turn.index(i)));
        }
        compare(of, thread, sum);
    }
};

/// Checks that each element holds the value that `write_kernel` should have written.
template <class T, lengths Lengths = lengths::equal>
struct check_contents_kernel {
    job<T, Lengths> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        const lane_array<T> mine = of.arrays[thread];
        const std::uint32_t seed = seed_of(thread, of.salt);
        std::uint64_t bad = 0;
        for (std::uint32_t i = 0; i < of.count_of(thread); ++i) {
            const T found = mine[i];
            const T wanted = content<T>(seed, i);
            for (std::uint32_t w = 0; w < words_of<T>; ++w) {
                bad += reinterpret_cast<const std::uint32_t*>(&found)[w] !=
                       reinterpret_cast<const std::uint32_t*>(&wanted)[w];
            }
        }
        if (bad != 0) {
            of.wrong->template fetch_add<order::relaxed>(bad);  // only a count
        }
    }
};

/// Checks that `chase_kernel` ended at the right element of the chain.
template <class T>
struct check_chase_kernel {
    job<T> of;
    std::uint32_t steps;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        // By arithmetic on indices alone: no element is read.
        std::uint32_t at_last = 0;
        for (std::uint32_t i = 0; i < steps; ++i) {
            at_last = next_in_chain(at_last, of.count - 1);
        }
        compare(of, thread, at_last);
    }
};

/// Checks that pieces come in ascending order, cover an array without a gap, and hold the elements of
/// `lane_array::operator[]`: of arrays that have no other way. That arrays do not overlap is seen in their contents.
template <class T, lengths Lengths>
struct check_pieces_kernel {
    job<T, Lengths> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        const lane_array<T> mine = of.arrays[thread];
        std::uint64_t bad = 0;
        std::uint32_t seen = 0;
        mine.for_each_tile([&](const tile_span<T>& piece) {
            for (std::uint32_t i = 0; i < piece.count; ++i) {
                bad += &piece.data[i] != &mine[seen];
                ++seen;
            }
        });
        if (bad + (seen != of.count_of(thread)) != 0) {
            of.wrong->template fetch_add<order::relaxed>(bad + (seen != of.count_of(thread)));  // only a count
        }
    }
};

/// Checks that all ways address the same bytes: every element of every array, by `Reference` and by each view.
template <class T, class Reference>
struct check_addresses_kernel {
    job<T> of;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        if (thread >= of.threads) {
            return;
        }
        const lane_array<T> mine = of.arrays[thread];
        const auto pointer = by_pointer::view(mine);
        const auto reference = Reference::view(mine);
        std::uint64_t bad = 0;
        for (std::uint32_t i = 0; i < of.count; ++i) {
            bad += &mine[i] != &reference[i] || &pointer[i] != &reference[i];
        }
        // Pieces come in ascending order, and must cover the array without a gap.
        std::uint32_t seen = 0;
        mine.for_each_tile([&](const tile_span<T>& piece) {
            for (std::uint32_t i = 0; i < piece.count; ++i) {
                bad += &piece.data[i] != &reference[seen];
                ++seen;
            }
        });
        if (bad + (seen != of.count) != 0) {
            of.wrong->template fetch_add<order::relaxed>(bad + (seen != of.count));  // only a count
        }
    }
};

}  // namespace orchard::bench::access
