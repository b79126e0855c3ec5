// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A baseline for `or_tree`: a flat bitmap that is scanned from its start, 64 segments at a time.
/// profiling/or_tree_bench.cpp compares the two.

#include <cstdint>
#include <optional>
#include <vector>

#include "uvm/geometry/geometry.hpp"

namespace orchard::baselines {

/// Gives the same results as `or_tree`, by first fit over a bitmap (1 = free). Not thread-safe.
class linear_bitmap {
public:
    /// Creates `segments` segments, all free or all taken.
    linear_bitmap(std::uint32_t segments, bool all_free);

    /// Returns the first of the lowest `k` consecutive free segments; nothing if there is none, or if k is 0. Cost:
    /// O(size / 64).
    [[nodiscard]] std::optional<segment_index> find_run(std::uint32_t k) const;
    /// Takes the run that `find_run(k)` returns, and returns its first segment. Cost: reads O(size / 64) words and
    /// writes O(k / 64).
    std::optional<segment_index> take_run(std::uint32_t k);

    /// Returns `run` to the free segments. Returns false, without a change, if a part is free already or outside the
    /// bitmap.
    [[nodiscard]] bool give_back(segment_run run);

private:
    std::uint32_t size_;                ///< segments
    std::vector<std::uint64_t> words_;  ///< bit i of word w: segment 64 w + i is free
};

}  // namespace orchard::baselines
