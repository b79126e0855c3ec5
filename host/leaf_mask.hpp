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

/// Returns the free nodes of `size` leaves (a power of two up to 32), each by its first leaf.
constexpr leaf_mask free_nodes(leaf_mask free, std::uint32_t size) { return run_starts(free, size) & every_nth(size); }

/// Returns the size of the largest free node; 0 if no leaf is free. Cost: a step for each doubling.
constexpr std::uint32_t largest_node(leaf_mask free) {
    std::uint32_t size = 0;
    for (std::uint32_t next = 1; free != 0; next *= 2) {
        size = next;
        free &= (free >> next) & every_nth(next < leaves_per_segment ? 2 * next : next);
    }
    return size;
}

/// Returns the first of `leaves` consecutive free leaves, at a multiple of `alignment` (a power of two), in the
/// shortest free run that holds them; of equally short runs, in the lowest. Returns nothing if no run holds them. Cost:
/// a step for each free run, at most 16.
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
constexpr std::optional<std::uint32_t> tightest_node(leaf_mask free, std::uint32_t size) {
    leaf_mask nodes = size <= leaves_per_segment ? free_nodes(free, size) : 0;
    while (nodes != 0) {
        // A node without a free parent is a largest free node: to use it splits no larger one.
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
