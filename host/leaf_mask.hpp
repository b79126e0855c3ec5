// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The leaves of a VA block as a mask, for finding room for portions. Bit i stands for leaf i; 1 = free.
///
///     bit           0 1 2 3 4 5 6 7                    a prefetch tree of 8 leaves in one word; its inner nodes are
///     free          0 1 1 1 1 1 1 0                    computed, not stored
///     2 leaves      . . 1 . 1 . . .                    a node is free if all of its leaves are;
///     4 leaves      . . . . . . . .                    it is shown at its first leaf
///
/// Each function takes a few operations on one word. Masks have at most 32 bits; they are stored in 64-bit words, for
/// which `word_runs.hpp` has the arithmetic.

#include <bit>
#include <cstdint>
#include <optional>

#include "host/word_runs.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::detail {

/// A set of leaves.
using leaf_mask = std::uint64_t;

/// Returns leaves [first, first + count); 0 <= count, first + count <= 32.
constexpr leaf_mask leaf_bits(std::uint32_t first, std::uint32_t count) {
    return ((leaf_mask{1} << count) - 1) << first;
}

/// Returns every `size`-th leaf of 32, from leaf 0 on; `size` is a power of two up to 32. (The quotient of 2^32 - 1 and
/// 2^size - 1 has a 1 at each multiple of `size`.)
constexpr leaf_mask every_nth(std::uint32_t size) { return leaf_bits(0, leaves_per_segment) / leaf_bits(0, size); }

/// Returns the free nodes of `size` leaves (a power of two up to 32), each by its first leaf. A node is a free run of
/// `size` leaves that starts at a multiple of `size`. Cost: log2 of `size` steps.
constexpr leaf_mask free_nodes(leaf_mask free, std::uint32_t size) { return run_starts(free, size) & every_nth(size); }

/// Returns the size of the largest free node; 0 if no leaf is free. Cost: a step for each doubling. In each step `free`
/// holds the free nodes of `size` leaves; two neighbours of them, the lower one aligned, are a node of twice the size.
///
///     free leaves 1 to 6     nodes of 2: at 2 and 4     nodes of 4: none, as 2 is no multiple of 4     result 2
constexpr std::uint32_t largest_node(leaf_mask free) {
    std::uint32_t size = 0;
    for (std::uint32_t next = 1; free != 0; next *= 2) {
        size = next;
        free &= (free >> next) & every_nth(next < leaves_per_segment ? 2 * next : next);
    }
    return size;
}

/// Returns the first of `leaves` consecutive free leaves, at a multiple of `alignment` (a power of two), in the
/// shortest free run that holds them; of equally short runs, in the lowest. Returns nothing if no run holds them. The
/// shortest run is taken so that longer ones stay whole for longer portions. Cost: a step for each free run, at most
/// 16, since taken leaves lie between two free runs.
///
///     free          0 1 1 1 1 0 1 1        2 leaves: the run at 6 holds them and is shorter than the run at 1
///     alignment 4                          1 leaf: 6 rounds up to 8, beyond its run; the run at 1 has leaf 4
constexpr std::optional<std::uint32_t> tightest_run(leaf_mask free, std::uint32_t leaves, std::uint32_t alignment) {
    std::optional<std::uint32_t> best;
    std::uint32_t shortest = leaves_per_segment + 1;
    while (free != 0) {
        const auto begin = static_cast<std::uint32_t>(std::countr_zero(free));
        const auto length = static_cast<std::uint32_t>(std::countr_one(free >> begin));
        const std::uint32_t first = (begin + alignment - 1) & ~(alignment - 1);
        if (length < shortest && first + leaves <= begin + length) {
            best = first;
            shortest = length;
        }
        free &= ~leaf_bits(begin, length);
    }
    return best;
}

/// Returns the first leaf of a free node of `size` leaves (a power of two), in the smallest free node that contains
/// one; of equally small nodes, in the lowest. Returns nothing if there is none. Cost: a step for each doubling above
/// `size`.
///
///     free leaves   1 2 3 4 5 6, size 1      leaf 1: its neighbour 0 is taken, so no larger free node contains it.
///                                            Leaves 2 to 5 lie in the nodes {2, 3} and {4, 5}, which stay whole
constexpr std::optional<std::uint32_t> tightest_node(leaf_mask free, std::uint32_t size) {
    leaf_mask nodes = size <= leaves_per_segment ? free_nodes(free, size) : 0;
    while (nodes != 0) {
        // A node without a free parent is a largest free node: its use splits no larger one. A parent is known by its
        // first leaf, which is also that of its lower child; the upper child begins `size` leaves later.
        const leaf_mask parents = size < leaves_per_segment ? free_nodes(free, 2 * size) : 0;
        if (const leaf_mask largest = nodes & ~(parents | parents << size); largest != 0) {
            return static_cast<std::uint32_t>(std::countr_zero(largest));
        }
        nodes = parents;
        size *= 2;
    }
    return std::nullopt;
}

}  // namespace orchard::detail
