// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Algorithms 1 and 2 of the paper. A node is 1 if all leaves below it are free.

#include "profiling/baselines/linear_portion_tree.hpp"

namespace orchard::baselines {

linear_portion_tree::linear_portion_tree(std::uint32_t blocks, portion_marking marking, std::uint32_t block_leaves)
    : marking_(marking),
      block_leaves_(block_leaves),
      leaves_(blocks * block_leaves),
      nodes_(2 * std::size_t{leaves_}, 1) {}

std::optional<portion> linear_portion_tree::find(leaf_count asked) const {
    const leaf_count own = portion_leaves(portion_policy::padded, asked, block_leaves_);
    if (to_underlying(own) == 0) {
        return std::nullopt;
    }
    // A portion needs a free node of twice its size: it goes into the left child, and the right one stays empty.
    const std::uint32_t node_leaves = 2 * to_underlying(own);
    const std::uint32_t first = leaves_ / node_leaves;  // nodes of this height: [first, 2 * first)
    for (std::uint32_t n = first; n < 2 * first; ++n) {
        if (nodes_[n] == 1) {
            const std::uint32_t leaf = (n - first) * node_leaves;
            return portion{segment_index{leaf / block_leaves_}, leaf_index{leaf % block_leaves_}, own};
        }
    }
    return std::nullopt;
}

std::optional<portion> linear_portion_tree::take(leaf_count asked) {
    const auto p = find(asked);
    if (p) {
        occupy(*p);
    }
    return p;
}

void linear_portion_tree::mark(const portion& p, std::uint8_t free) {
    // The whole node, or its left child only, by the marking.
    const std::uint32_t marked = to_underlying(p.leaves) * (marking_ == portion_marking::reserving ? 2 : 1);
    const std::uint32_t leaf = to_underlying(p.block) * block_leaves_ + to_underlying(p.first);
    std::uint32_t n = (leaves_ + leaf) / marked;
    // All nodes below, level by level: each level has twice as many, side by side.
    for (std::uint32_t first = n, many = 1; many <= marked; first *= 2, many *= 2) {
        for (std::uint32_t i = 0; i < many; ++i) {
            nodes_[first + i] = free;
        }
    }
    // And those above: free only if both children are.
    while (n > 1) {
        n /= 2;
        nodes_[n] = nodes_[2 * n] & nodes_[2 * n + 1];
    }
}

}  // namespace orchard::baselines
