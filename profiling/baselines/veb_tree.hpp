// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A baseline for `or_tree`: the van Emde Boas tree of the textbooks. profiling/or_tree_bench.cpp compares the two;
/// tests/or_tree/veb_test.cpp checks that it is a set.

#include <cstdint>
#include <optional>

#include "profiling/baselines/node_arena.hpp"

namespace orchard::baselines {

/// An ordered set of numbers below `universe`. `successor_runs` makes free segments of it. Not thread-safe.
///
/// Source: P. van Emde Boas, *Preserving order in a forest in less than logarithmic time* (FOCS 1975), as Cormen et
/// al., *Introduction to Algorithms* (third edition), chapter 20, describe it. A node of 2^b numbers keeps its least
/// and its greatest number itself. The others go to clusters of 2^(b / 2) numbers by their upper bits; the summary is
/// the set of clusters that are not empty. Clusters and summary are trees of the same kind, with half as many bits:
/// hence O(log b) = O(log log universe). A node of at most two numbers has no clusters at all, so that an operation
/// goes down either into a cluster or into the summary: the other one of the two then costs O(1).
///
///     {2, 3, 8, 13}, 2^4 numbers    min 2, max 13    clusters {3} {} {0} {}    summary {0, 2}
///                                                    3 = 4 * 0 + 3 and 8 = 4 * 2 + 0
///
/// A cluster is allocated when its first number comes, and stays until the tree is destroyed. The array of a node's
/// clusters, 8 bytes each, is allocated with its third number.
///
/// `LeafBits` is the size of the trees that are not divided further: 1 in the textbook, 2 numbers; 6 is the usual
/// shortcut, 64 numbers as one word. In both cases a leaf takes 8 bytes in the array of its node.
template <std::uint32_t LeafBits>
class veb_tree {
public:
    /// Creates the set of all numbers below `universe`, or the empty set. Cost: O(universe) or O(1).
    veb_tree(std::uint32_t universe, bool full);

    /// Returns true if `x` is in the set. Cost: O(log log universe).
    [[nodiscard]] bool contains(std::uint32_t x) const;
    /// Returns the least number; nothing if the set is empty. Cost: O(1).
    [[nodiscard]] std::optional<std::uint32_t> first() const {
        return is_empty(root_, bits_) ? std::nullopt : std::optional(min_of(root_, bits_));
    }
    /// Returns the least number greater than `x`, which need not be in the set; nothing if there is none. Cost: O(log
    /// log universe).
    [[nodiscard]] std::optional<std::uint32_t> successor(std::uint32_t x) const {
        const std::uint32_t next = x >= universe_ ? none : successor_in(root_, bits_, x);
        return next == none ? std::nullopt : std::optional(next);
    }

    /// Adds `x`. Returns false if it is in the set already, or not below `universe`. Cost: O(log log universe), plus
    /// the arrays that are allocated.
    bool insert(std::uint32_t x) { return x < universe_ && insert_in(root_, bits_, x); }
    /// Removes `x`. Returns false if it is not in the set. Cost: O(log log universe).
    bool erase(std::uint32_t x) { return x < universe_ && erase_in(root_, bits_, x); }

private:
    struct node;
    /// A tree of b bits: a word if b <= LeafBits, otherwise a node, null until the first number comes.
    union slot {
        std::uint64_t word;
        node* child;
    };

    static constexpr std::uint32_t none = ~std::uint32_t{0};

    // Trees of `bits` bits; `none` is returned where there is no number. `min_of` and `max_of` need a number.
    [[nodiscard]] static bool is_empty(const slot& s, std::uint32_t bits);
    [[nodiscard]] static std::uint32_t min_of(const slot& s, std::uint32_t bits);
    [[nodiscard]] static std::uint32_t max_of(const slot& s, std::uint32_t bits);
    [[nodiscard]] static std::uint32_t successor_in(const slot& s, std::uint32_t bits, std::uint32_t x);
    bool insert_in(slot& s, std::uint32_t bits, std::uint32_t x);
    static bool erase_in(slot& s, std::uint32_t bits, std::uint32_t x);
    [[nodiscard]] slot range(std::uint32_t bits, std::uint32_t first, std::uint32_t last);
    void add_children(node& n, std::uint32_t bits);

    node_arena arena_;
    std::uint32_t universe_;
    std::uint32_t bits_;  ///< the root has 2^bits_ >= universe_ numbers
    slot root_{};
};

/// The textbook's, and the one with a word at the leaves. veb_tree.cpp instantiates these two.
using textbook_veb_tree = veb_tree<1>;
using word_leaf_veb_tree = veb_tree<6>;

}  // namespace orchard::baselines
