// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The published OR-tree: one byte for each node, walked node by node.

#include "profiling/baselines/binary_or_tree.hpp"

#include <algorithm>
#include <bit>

#include "host/word_runs.hpp"

namespace orchard::baselines {

binary_or_tree::binary_or_tree(std::uint32_t segments, bool all_free)
    : size_(segments), leaves_(std::bit_ceil(std::max(segments, 1u))), nodes_(2 * std::size_t{leaves_}) {
    // Leaves beyond `size_` stay 0: they never count as free.
    if (all_free) {
        std::fill_n(nodes_.begin() + leaves_, size_, std::uint8_t{1});
        // From the last inner node to the root: both children are known before their parent.
        for (std::uint32_t n = leaves_; --n != 0;) {
            nodes_[n] = nodes_[2 * n] | nodes_[2 * n + 1];
        }
    }
}

// Returns the lowest free leaf below `node`, which must be 1: then one of its children is 1 at each level.
std::uint32_t binary_or_tree::leftmost(std::uint32_t node) const {
    while (node < leaves_) {
        node = 2 * node + (nodes_[2 * node] == 0 ? 1 : 0);
    }
    return node;
}

// Returns the lowest free leaf above `leaf`: climbs until a left child has a right sibling that is 1.
std::optional<std::uint32_t> binary_or_tree::next_leaf(std::uint32_t leaf) const {
    for (std::uint32_t n = leaf; n > 1; n /= 2) {
        if (n % 2 == 0 && nodes_[n + 1] != 0) {
            return leftmost(n + 1);
        }
    }
    return std::nullopt;
}

// Sets a leaf and the nodes above it. Every node up to the root is computed anew, also if its value does not change, as
// the paper does it.
void binary_or_tree::set(std::uint32_t leaf, std::uint8_t free) {
    nodes_[leaf] = free;
    for (std::uint32_t n = leaf / 2; n != 0; n /= 2) {
        nodes_[n] = nodes_[2 * n] | nodes_[2 * n + 1];
    }
}

// Sets all leaves of `run`. Returns false if one has the value already or lies outside; the check comes before the
// first change.
bool binary_or_tree::set_all(segment_run run, std::uint8_t free) {
    if (!orchard::detail::lies_inside(run, size_)) {
        return false;
    }
    const std::uint32_t begin = leaves_ + to_underlying(run.first);
    for (std::uint32_t leaf = begin; leaf < begin + run.count; ++leaf) {
        if (nodes_[leaf] == free) {
            return false;
        }
    }
    for (std::uint32_t leaf = begin; leaf < begin + run.count; ++leaf) {
        set(leaf, free);
    }
    return true;
}

std::optional<segment_index> binary_or_tree::find_run(std::uint32_t k) const {
    if (k == 0 || nodes_[1] == 0) {
        return std::nullopt;
    }
    // The run [first, last] grows by its successor, or begins anew behind a gap.
    std::uint32_t first = leftmost(1);
    std::uint32_t last = first;
    while (last - first + 1 < k) {
        const std::optional<std::uint32_t> next = next_leaf(last);
        if (!next) {
            return std::nullopt;
        }
        first = *next == last + 1 ? first : *next;
        last = *next;
    }
    return segment_index{first - leaves_};
}

std::optional<segment_index> binary_or_tree::take_run(std::uint32_t k) {
    const std::optional<segment_index> first = find_run(k);
    for (std::uint32_t i = 0; first && i < k; ++i) {
        set(leaves_ + to_underlying(*first) + i, 0);
    }
    return first;
}

bool binary_or_tree::take(segment_run run) { return set_all(run, 0); }

bool binary_or_tree::give_back(segment_run run) { return set_all(run, 1); }

std::optional<segment_index> binary_or_tree::successor(segment_index i) const {
    if (to_underlying(i) >= size_) {
        return std::nullopt;
    }
    const std::optional<std::uint32_t> next = next_leaf(leaves_ + to_underlying(i));
    return next ? std::optional(segment_index{*next - leaves_}) : std::nullopt;
}

}  // namespace orchard::baselines
