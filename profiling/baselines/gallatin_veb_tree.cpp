// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Gallatin's tree, on the host: construction and changes.

#include "profiling/baselines/gallatin_veb_tree.hpp"

#include <algorithm>

#include "host/word_runs.hpp"

namespace orchard::baselines {

using orchard::detail::bit_of;
using orchard::detail::word_bits;

gallatin_veb_tree::gallatin_veb_tree(std::uint32_t universe, bool full) : universe_(universe) {
    std::uint32_t below = universe;  // numbers, or words of the level below
    do {
        const std::uint32_t words = std::max(orchard::detail::words_for(below), 1u);
        std::vector<std::uint64_t>& level = levels_.emplace_back(words, full ? ~std::uint64_t{0} : 0);
        // Bits past the end stay 0. (No function reads the word of an empty universe.)
        if (full && below % word_bits != 0) {
            level.back() = orchard::detail::bits_from(0, below % word_bits);
        }
        below = words;
    } while (below > 1);
}

bool gallatin_veb_tree::insert(std::uint32_t x) {
    if (x >= universe_ || contains(x)) {
        return false;
    }
    for (std::vector<std::uint64_t>& level : levels_) {
        std::uint64_t& word = level[x / word_bits];
        const bool known_above = word != 0;
        word |= bit_of(x);
        if (known_above) {
            break;
        }
        x /= word_bits;
    }
    return true;
}

bool gallatin_veb_tree::erase(std::uint32_t x) {
    if (!contains(x)) {
        return false;
    }
    for (std::vector<std::uint64_t>& level : levels_) {
        std::uint64_t& word = level[x / word_bits];
        word &= ~bit_of(x);
        if (word != 0) {
            break;
        }
        x /= word_bits;
    }
    return true;
}

}  // namespace orchard::baselines
