// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reaches into an `or_tree`, so that tests can plant the faults that `validate` must find.

#include "host/or_tree.hpp"

namespace orchard {

struct or_tree_peer {
    static std::uint64_t& leaf(or_tree& t, std::uint32_t w) { return t.leaves_[w]; }
    static std::uint64_t& inner(or_tree& t, std::uint32_t level, std::uint32_t w) { return t.inner_[level - 1][w]; }
    static std::uint32_t& free_count(or_tree& t) { return t.free_; }
    static std::uint32_t& hint(or_tree& t) { return t.hint_; }
    static std::uint64_t& stale(or_tree& t, std::uint32_t level, std::uint32_t n) { return t.runs_.stale_[level][n]; }
    static auto& word_block(or_tree& t, std::uint32_t n) { return t.runs_.words_[n]; }
    static auto& node_block(or_tree& t, std::uint32_t n) { return t.runs_.nodes_[n]; }
    static detail::run_summary& root(or_tree& t) { return t.runs_.root_; }
};

}  // namespace orchard
