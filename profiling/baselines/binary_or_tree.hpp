// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A baseline for `or_tree`: the OR-tree as it was published. profiling/or_tree_bench.cpp compares the two;
/// tests/or_tree/baselines_test.cpp checks that they give the same results.

#include <cstdint>
#include <optional>
#include <vector>

#include "uvm/geometry/geometry.hpp"

namespace orchard::baselines {

/// Gives the same results as `or_tree`, by the published method. Not thread-safe.
///
/// Source: Zhang et al., *AlignMalloc: Warp-Aware Memory Rearrangement Aligned With UVM Prefetching for Large-Scale GPU
/// Dynamic Allocations* (TPDS 2025), section VI.B. The tree is a full binary tree in a boolean array. The lowest free
/// segment is found from the root by the leftmost child that is 1. A run of k is found by going from each free segment
/// to its successor: up to the first node that is a left child with a right sibling of 1, then down that sibling's
/// leftmost path. Every change of a leaf is carried upward to the root.
///
///     node 1 is the root, node n has the children 2 n and 2 n + 1, segment i is node leaves + i
class binary_or_tree {
public:
    /// Creates `segments` segments, all free or all taken.
    binary_or_tree(std::uint32_t segments, bool all_free);

    /// Returns the first of the lowest `k` consecutive free segments; nothing if there is none, or if k is 0. Cost: O(k
    /// * log size) if the first k free segments are consecutive, O(free * log size) at worst.
    [[nodiscard]] std::optional<segment_index> find_run(std::uint32_t k) const;
    /// Takes the run that `find_run(k)` returns, and returns its first segment. Cost: as `find_run`, plus O(k * log
    /// size).
    std::optional<segment_index> take_run(std::uint32_t k);
    /// Takes exactly `run`. Returns false, without a change, if a part is taken or outside the tree. Cost: O(run * log
    /// size).
    [[nodiscard]] bool take(segment_run run);
    /// Returns the lowest free segment above `i`; nothing if there is none. Cost: O(log size).
    [[nodiscard]] std::optional<segment_index> successor(segment_index i) const;

    /// Returns `run` to the free segments. Returns false, without a change, if a part is free already or outside the
    /// tree. Cost: O(run * log size).
    [[nodiscard]] bool give_back(segment_run run);

private:
    [[nodiscard]] std::uint32_t leftmost(std::uint32_t node) const;
    [[nodiscard]] std::optional<std::uint32_t> next_leaf(std::uint32_t leaf) const;
    void set(std::uint32_t leaf, std::uint8_t free);
    bool set_all(segment_run run, std::uint8_t free);

    std::uint32_t size_;
    std::uint32_t leaves_;             ///< a power of two; node index of segment 0
    std::vector<std::uint8_t> nodes_;  ///< 1: a segment below the node is free
};

}  // namespace orchard::baselines
