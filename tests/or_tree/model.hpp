// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The expected results of an `or_tree`, computed the slow way.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "uvm/geometry/geometry.hpp"

namespace orchard::testing {

class or_tree_model {
public:
    or_tree_model(std::uint32_t segments, bool all_free) : free_(segments, all_free) {}

    [[nodiscard]] std::optional<segment_index> find_run(std::uint32_t k) const {
        std::uint32_t length = 0;
        for (std::uint32_t i = 0; k != 0 && i < free_.size(); ++i) {
            length = free_[i] ? length + 1 : 0;
            if (length == k) {
                return segment_index{i + 1 - k};
            }
        }
        return std::nullopt;
    }
    std::optional<segment_index> take_run(std::uint32_t k) {
        const auto first = find_run(k);
        if (first) {
            static_cast<void>(turn({*first, k}, true));
        }
        return first;
    }
    bool take(segment_run run) { return turn(run, true); }
    bool give_back(segment_run run) { return turn(run, false); }
    [[nodiscard]] bool is_free(std::uint32_t i) const { return free_[i]; }
    [[nodiscard]] std::uint32_t free_count() const {
        return static_cast<std::uint32_t>(std::count(free_.begin(), free_.end(), true));
    }
    [[nodiscard]] std::uint32_t longest_run() const {
        std::uint32_t longest = 0;
        std::uint32_t length = 0;
        for (const bool b : free_) {
            length = b ? length + 1 : 0;
            longest = std::max(longest, length);
        }
        return longest;
    }

private:
    // Changes all of `run` from `was_free` to the opposite; returns false, without a change, if a part is in the other
    // state.
    bool turn(segment_run run, bool was_free) {
        const std::uint64_t begin = to_underlying(run.first);
        const std::uint64_t end = begin + run.count;
        if (end > free_.size()) {
            return false;
        }
        for (std::uint64_t i = begin; i < end; ++i) {
            if (free_[i] != was_free) {
                return false;
            }
        }
        for (std::uint64_t i = begin; i < end; ++i) {
            free_[i] = !was_free;
        }
        return true;
    }

    std::vector<bool> free_;
};

}  // namespace orchard::testing
