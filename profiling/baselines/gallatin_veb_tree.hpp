// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A baseline for `or_tree`: the van Emde Boas tree as Gallatin reads it. profiling/or_tree_bench.cpp compares the two;
/// tests/or_tree/veb_test.cpp checks that it is a set.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "host/word_runs.hpp"

namespace orchard::baselines {

/// An ordered set of numbers below `universe`. `successor_runs` makes free segments of it. Not thread-safe.
///
/// Source: the idea of Gallatin's tree (McCoy and Pandey, *Gallatin: A General-Purpose GPU Memory Manager*, PPoPP
/// 2024): a node is one word of 64 bits, a bit says that the child below is not empty, and neither minimum nor maximum
/// is stored, because the hardware finds the lowest set bit of a word. What is left of the van Emde Boas tree is a tree
/// of bits with 64 children to a node, of log64(universe) levels. This is also the shape of `or_tree`.
///
/// Two differences from Gallatin: this one runs on the host in one thread, so that its operations are plain loads and
/// stores instead of atomics; and an insertion always makes the number visible at the root. (Gallatin's ordinary
/// insertion leaves that to chance, to save atomics.)
///
///     level 1 (root)   [1 0 1]                      bit i: word i below is not 0
///     level 0          [0110...] [0000...] [1...]   bit i of word w: 64 w + i is in the set
class gallatin_veb_tree {
public:
    /// Creates the set of all numbers below `universe`, or the empty set. Cost: O(universe / 64).
    gallatin_veb_tree(std::uint32_t universe, bool full);

    /// Returns true if `x` is in the set. Cost: one word.
    [[nodiscard]] bool contains(std::uint32_t x) const {
        return x < universe_ && (levels_[0][x / orchard::detail::word_bits] & orchard::detail::bit_of(x)) != 0;
    }
    /// Returns the least number; nothing if the set is empty. Cost: as `successor(0)`.
    [[nodiscard]] std::optional<std::uint32_t> first() const { return contains(0) ? std::optional(0u) : successor(0); }
    /// Returns the least number greater than `x`, which need not be in the set; nothing if there is none. Cost: one
    /// word if the answer lies in x's word, otherwise at most two words a level.
    [[nodiscard]] std::optional<std::uint32_t> successor(std::uint32_t x) const {
        using orchard::detail::word_bits;
        // Up to the first word with a higher bit.
        for (std::size_t level = 0; x < universe_ && level < levels_.size(); ++level) {
            // The bits above x. For bit 63 none is left, without a shift by 64.
            const std::uint64_t above = levels_[level][x / word_bits] & ~std::uint64_t{1} << x % word_bits;
            x /= word_bits;
            if (above == 0) {
                continue;
            }
            // Then down along the lowest bits.
            x = x * word_bits + static_cast<std::uint32_t>(std::countr_zero(above));
            while (level-- != 0) {
                x = x * word_bits + static_cast<std::uint32_t>(std::countr_zero(levels_[level][x]));
            }
            return x;
        }
        return std::nullopt;
    }

    /// Adds `x`. Returns false if it is in the set already, or not below `universe`. Cost: one word, and one more for
    /// each level whose word was 0.
    bool insert(std::uint32_t x);
    /// Removes `x`. Returns false if it is not in the set. Cost: one word, and one more for each level whose word
    /// becomes 0.
    bool erase(std::uint32_t x);

private:
    std::uint32_t universe_;
    std::vector<std::vector<std::uint64_t>> levels_;  ///< [0]: the numbers; the last one is one word
};

}  // namespace orchard::baselines
