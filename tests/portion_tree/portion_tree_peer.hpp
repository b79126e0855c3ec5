// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Accesses the private state of a `portion_tree`, to distinguish states and to plant the faults that `validate` must
/// find.

#include <cstdint>

#include "host/portion_tree.hpp"

namespace orchard {

struct portion_tree_peer {
    static std::uint32_t& free(portion_tree& t, std::uint32_t block) { return t.blocks_of_[block].free; }
    static std::uint32_t& starts(portion_tree& t, std::uint32_t block) { return t.blocks_of_[block].starts; }
    static std::uint32_t& blocks(portion_tree& t) { return t.blocks_; }
    static std::uint32_t& empty(portion_tree& t) { return t.empty_; }
    static std::uint64_t& portions(portion_tree& t) { return t.portions_; }
    static std::uint64_t& reserved(portion_tree& t) { return t.reserved_; }
    static std::uint64_t& room(portion_tree& t, std::uint32_t level, std::uint32_t node, std::uint32_t c) {
        return t.room_.levels_[level][t.room_.at(node, c)];
    }
    static std::uint64_t& present(portion_tree& t) { return t.room_.present_; }
};

}  // namespace orchard
