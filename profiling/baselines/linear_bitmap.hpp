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

    /// Takes the lowest run of `k` free segments and returns its first; nothing if there is none, or if k is 0. Cost:
    /// reads O(size / 64) words and writes O(k / 64).
    std::optional<segment_index> take_run(std::uint32_t k);

    /// Returns `run` to the free segments. Returns false, without a change, if a part is free already or outside the
    /// bitmap.
    [[nodiscard]] bool give_back(segment_run run);

private:
    /// Returns the first segment of the lowest run of `k` >= 1 free segments; nothing if there is none.
    [[nodiscard]] std::optional<std::uint32_t> find_run(std::uint32_t k) const;

    std::uint32_t size_;                ///< segments
    std::vector<std::uint64_t> words_;  ///< bit i of word w: segment 64 w + i is free
};

}  // namespace orchard::baselines
