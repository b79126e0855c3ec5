// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The operations of `or_tree` over an ordered set that knows no runs: a run is found from successor to successor.
/// tests/or_tree/baselines_test.cpp checks that the results are the same.

#include <cstdint>
#include <optional>

#include "host/word_runs.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::baselines {

/// Free segments in a `Set` of numbers, which has `contains`, `first`, `successor`, `insert` and `erase`. Not
/// thread-safe.
///
/// Source: Zhang et al., *AlignMalloc* (TPDS 2025), section VI.B, the search for k consecutive segments.
template <class Set>
class successor_runs {
public:
    /// Creates `segments` segments, all free or all taken.
    successor_runs(std::uint32_t segments, bool all_free) : size_(segments), free_(segments, all_free) {}

    /// Returns the first of the lowest `k` consecutive free segments; nothing if there is none, or if k is 0. Cost: one
    /// successor for each free segment up to the end of the run, thus at worst one for each free segment.
    [[nodiscard]] std::optional<segment_index> find_run(std::uint32_t k) const {
        const std::optional<std::uint32_t> lowest = k == 0 ? std::nullopt : free_.first();
        if (!lowest) {
            return std::nullopt;
        }
        // The run [first, last] grows by its successor, or begins anew behind a gap.
        std::uint32_t first = *lowest;
        std::uint32_t last = first;
        while (last - first + 1 < k) {
            const std::optional<std::uint32_t> next = free_.successor(last);
            if (!next) {
                return std::nullopt;
            }
            first = *next == last + 1 ? first : *next;
            last = *next;
        }
        return segment_index{first};
    }

    /// Takes the run that `find_run(k)` returns, and returns its first segment. Cost: as `find_run`, plus k erasures.
    std::optional<segment_index> take_run(std::uint32_t k) {
        const std::optional<segment_index> first = find_run(k);
        for (std::uint32_t i = 0; first && i < k; ++i) {
            free_.erase(to_underlying(*first) + i);
        }
        return first;
    }

    /// Takes exactly `run`. Returns false, without a change, if a part is taken or outside. Cost: O(run) operations of
    /// the set.
    [[nodiscard]] bool take(segment_run run) {
        if (!all_are(run, true)) {
            return false;
        }
        for (std::uint32_t i = 0; i < run.count; ++i) {
            free_.erase(to_underlying(run.first) + i);
        }
        return true;
    }

    /// Returns `run` to the free segments. Returns false, without a change, if a part is free already or outside. Cost:
    /// O(run) operations of the set.
    [[nodiscard]] bool give_back(segment_run run) {
        if (!all_are(run, false)) {
            return false;
        }
        for (std::uint32_t i = 0; i < run.count; ++i) {
            free_.insert(to_underlying(run.first) + i);
        }
        return true;
    }

    /// Returns the lowest free segment above `i`; nothing if there is none.
    [[nodiscard]] std::optional<segment_index> successor(segment_index i) const {
        const std::optional<std::uint32_t> next = free_.successor(to_underlying(i));
        return next ? std::optional(segment_index{*next}) : std::nullopt;
    }

private:
    // Returns true if `run` lies inside and all its segments are free, or all are taken.
    [[nodiscard]] bool all_are(segment_run run, bool free) const {
        if (!orchard::detail::lies_inside(run, size_)) {
            return false;
        }
        for (std::uint32_t i = 0; i < run.count; ++i) {
            if (free_.contains(to_underlying(run.first) + i) != free) {
                return false;
            }
        }
        return true;
    }

    std::uint32_t size_;  ///< segments
    Set free_;
};

}  // namespace orchard::baselines
