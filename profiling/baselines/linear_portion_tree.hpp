// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A baseline for `portion_tree`: the portion tree as it was published. profiling/portion_tree_bench.cpp compares the
/// costs; `printed` shows what the paper's algorithm does if taken literally.

#include <cstdint>
#include <optional>
#include <vector>

#include "uvm/geometry/portion.hpp"

namespace orchard::baselines {

/// The nodes that Algorithm 2 marks after it has found a free node and put the warptree into its left child.
enum class portion_marking : std::uint8_t {
    printed,    ///< the warptree and its ancestors; the sibling then counts as free, and smaller portions are placed
                ///< there
    reserving,  ///< the whole node, as equation (3) requires
};

/// Places portions by the published method. Not thread-safe.
///
/// Source: Zhang et al., *AlignMalloc* (TPDS 2025), section V.B, Algorithms 1 and 2: a full binary tree over all VA
/// blocks as an array of marks, in which the nodes of one height are scanned from the left. The paper does not print
/// the release; here it undoes the marks.
///
///     node 1 is the root, node n has the children 2 n and 2 n + 1; the leaves of 64 KiB are the nodes from `leaves` on
class linear_portion_tree {
public:
    /// Creates `blocks` VA blocks of `block_leaves` leaves (powers of two), all in the space and free (Algorithm 1).
    linear_portion_tree(std::uint32_t blocks, portion_marking marking, std::uint32_t block_leaves = leaves_per_segment);

    /// Returns the place that Algorithm 2 selects for a portion of at least `asked` leaves; nothing if no node of its
    /// height is free. Cost: O(leaves).
    [[nodiscard]] std::optional<portion> find(leaf_count asked) const;
    /// Takes the portion that `find` returns, and returns it. Cost: O(leaves).
    std::optional<portion> take(leaf_count asked);
    /// Takes `p` as if Algorithm 2 had placed it there. Cost: O(log leaves + p.leaves).
    void occupy(const portion& p) { mark(p, 0); }
    /// Releases `p`, which must be taken. Cost: O(log leaves + p.leaves).
    void release(const portion& p) { mark(p, 1); }

private:
    /// Sets the nodes of `p`, and computes those above anew.
    void mark(const portion& p, std::uint8_t free);

    portion_marking marking_;
    std::uint32_t block_leaves_;
    std::uint32_t leaves_;             ///< of all blocks
    std::vector<std::uint8_t> nodes_;  ///< FreeNodeArray: 1 if all leaves below are free
};

}  // namespace orchard::baselines
