// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The classes of the members of a set; see class_index.hpp.

#include "host/class_index.hpp"

#include <algorithm>

#include <absl/strings/str_format.h>

namespace orchard::detail {

// One node for each 64 members, and so on upwards until one node is left. A set without members has one node, too, so
// that `tightest` always has a root.
class_index::class_index(std::uint32_t members, std::uint32_t classes) : members_(members), classes_(classes) {
    std::uint32_t nodes = std::max(words_for(members), 1u);
    levels_.emplace_back(std::size_t{nodes} * classes);
    while (nodes > 1) {
        nodes = words_for(nodes);
        levels_.emplace_back(std::size_t{nodes} * classes);
    }
}

// Sets the member's bit. The level above already has this node's bit if the word was not 0: then some other member
// below the node is in the class, and nothing changes further up.
//
//     member 5,000 in class 2    level 0, node 78: bit 8    level 1, node 1: bit 14    level 2, node 0: bit 1
void class_index::add(std::uint32_t member, std::uint32_t c) {
    for (auto& level : levels_) {
        std::uint64_t& word = level[at(member / word_bits, c)];
        const bool known = word != 0;
        word |= bit_of(member);
        if (known) {
            return;
        }
        member /= word_bits;
    }
    present_ |= bit_of(c);
}

// Clears the member's bit. The level above keeps this node's bit if another member below the node is in the class.
void class_index::remove(std::uint32_t member, std::uint32_t c) {
    for (auto& level : levels_) {
        std::uint64_t& word = level[at(member / word_bits, c)];
        word &= ~bit_of(member);
        if (word != 0) {
            return;
        }
        member /= word_bits;
    }
    present_ &= ~bit_of(c);
}

// Goes down from the root along the lowest set bits of the class that `present_` names. Each word on the way is
// nonzero, because a bit of the level above says so. A shift by 64 would be undefined; a `least` that large names no
// class.
std::optional<std::uint32_t> class_index::tightest(std::uint32_t least) const {
    const std::uint64_t classes = least < word_bits ? present_ >> least : 0;
    if (classes == 0) {
        return std::nullopt;
    }
    const std::uint32_t c = least + static_cast<std::uint32_t>(std::countr_zero(classes));
    std::uint32_t n = 0;
    for (std::size_t level = levels_.size(); level-- != 0;) {
        n = n * word_bits + static_cast<std::uint32_t>(std::countr_zero(levels_[level][at(n, c)]));
    }
    return n;
}

// Computes the words of a node from its children, into `words`: from the members' classes at level 0, otherwise from
// the words of the level below, whether these are right or not. `validate` checks the levels in ascending order, so
// that the first wrong word is the one that it reports.
void class_index::make_node(std::size_t level, std::uint32_t node, const class_function& class_of,
                            std::vector<std::uint64_t>& words) const {
    std::fill(words.begin(), words.end(), 0);
    // A level has `classes_` words for each of its nodes; the last node may have fewer than 64 children.
    const auto children = level == 0 ? members_ : static_cast<std::uint32_t>(levels_[level - 1].size() / classes_);
    for (std::uint32_t i = node * word_bits; i < std::min(children, (node + 1) * word_bits); ++i) {
        const std::uint32_t only = level == 0 ? class_of(i) : 0;
        for (std::uint32_t c = 1; c <= classes_; ++c) {
            const bool in = level == 0 ? c == only : levels_[level - 1][at(i, c)] != 0;
            words[c - 1] |= in ? bit_of(i) : 0;
        }
    }
}

// Level by level from the members up, and `present_` last. Cost: allocates the words of one node.
absl::Status class_index::validate(const class_function& class_of) const {
    std::vector<std::uint64_t> right(classes_);
    for (std::size_t level = 0; level < levels_.size(); ++level) {
        const auto nodes = static_cast<std::uint32_t>(levels_[level].size() / classes_);
        for (std::uint32_t node = 0; node < nodes; ++node) {
            make_node(level, node, class_of, right);
            for (std::uint32_t c = 1; c <= classes_; ++c) {
                if (const std::uint64_t word = levels_[level][at(node, c)]; word != right[c - 1]) {
                    return absl::InternalError(
                        absl::StrFormat("class index: level %u, node %u, class %u is %#x; what is below makes it %#x",
                                        level, node, c, word, right[c - 1]));
                }
            }
        }
    }
    std::uint64_t present = 0;
    for (std::uint32_t c = 1; c <= classes_; ++c) {
        present |= levels_.back()[at(0, c)] != 0 ? bit_of(c) : 0;
    }
    return present == present_
               ? absl::OkStatus()
               : absl::InternalError(absl::StrFormat("class index: the root's classes are %#x; its words make them %#x",
                                                     present_, present));
}

}  // namespace orchard::detail
