// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The run summaries of an OR-tree; see run_index.hpp.

#include "host/run_index.hpp"

#include <absl/strings/str_format.h>

namespace orchard::detail {

// Returns the blocks of one level; const or not as `self` is.
template <int Level, class Self>
auto& run_index::blocks(Self& self) {
    if constexpr (Level == 0) {
        return self.words_;
    } else if constexpr (Level == 1) {
        return self.nodes_;
    } else {
        return self.groups_;
    }
}

run_index::run_index(std::uint32_t leaf_words)
    : top_(leaf_words <= word_bits               ? 0
           : leaf_words <= word_bits * word_bits ? 1
                                                 : 2) {
    // All three levels exist, each with a block for 64 blocks of the level below; those above `top_` are not used.
    // `in_words`: blocks of level 0; `in_nodes`: blocks of level 1.
    const std::uint32_t in_words = words_for(leaf_words);
    const std::uint32_t in_nodes = words_for(in_words);
    words_.resize(in_words);
    nodes_.resize(in_nodes);
    groups_.resize(words_for(in_nodes));
    stale_ = {std::vector<std::uint64_t>(words_.size()), std::vector<std::uint64_t>(nodes_.size()),
              std::vector<std::uint64_t>(groups_.size())};
}

// Marks block `block` of level 0 in the block above it, and that one further up, to the root. Called at the first
// change below a block since the last refresh; the later ones find its mask nonzero and stop there.
//
//     leaf word 5,000:   level 0, block 78: bit 8 (set by `mark`)   level 1, block 1: bit 14   level 2, block 0: bit 1
void run_index::mark_above(std::uint32_t block) {
    for (std::uint32_t level = 1; level <= top_; ++level) {
        stale_[level][block / word_bits] |= bit_of(block);
        block /= word_bits;
    }
}

// Marks a range at every level, without a test whether it is marked there already: a range of many words is rare, and a
// loop over the words of a mask costs less than a test for each of them.
void run_index::mark(std::uint32_t first, std::uint32_t last) {
    if (first == last) {
        mark(first);
        return;
    }
    for (std::uint32_t level = 0; level <= top_; ++level) {
        every_word(first, last - first + 1, [&](std::size_t w, std::uint64_t mask) {
            stale_[level][w] |= mask;
            return true;
        });
        first /= word_bits;
        last /= word_bits;
    }
}

// Updates the stale summaries of block `n` of a level from its children, deepest first. Returns true if some summary
// has changed, so that the block's own summary must be computed again in the block above. A leaf word that has changed
// often has the same summary as before: then nothing above it is computed.
template <int Level>
bool run_index::refresh_block(std::span<const std::uint64_t> words, std::uint32_t n) {
    auto& block = blocks<Level>(*this)[n];
    bool changed = false;
    for (std::uint64_t rest = stale_[Level][n]; rest != 0; rest &= rest - 1) {
        const auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
        const std::uint32_t child = n * word_bits + i;
        if constexpr (Level == 0) {
            changed |= block.set(i, summary_of(words[child]));
        } else if (refresh_block<Level - 1>(words, child)) {
            changed |= block.set(i, blocks<Level - 1>(*this)[child].summary());
        }
    }
    stale_[Level][n] = 0;
    return changed;
}

// The root's own summary is computed only if the top block has changed, and otherwise stays as it was.
void run_index::refresh(std::span<const std::uint64_t> words) {
    if (clean()) {
        return;
    }
    switch (top_) {
        case 0: root_ = refresh_block<0>(words, 0) ? words_[0].summary() : root_; break;
        case 1: root_ = refresh_block<1>(words, 0) ? nodes_[0].summary() : root_; break;
        default: root_ = refresh_block<2>(words, 0) ? groups_[0].summary() : root_; break;
    }
}

// Returns the first segment of the lowest run of `k` below block `n` of a level, which must have one. The block says
// whether the run lies inside one child, in which the search continues, or crosses children, in which case its place is
// known already.
template <int Level>
std::uint32_t run_index::find_in(std::span<const std::uint64_t> words, std::uint32_t n, std::uint32_t k) const {
    constexpr std::uint32_t span = Level == 0 ? 64u * 64 : Level == 1 ? 64u * 64 * 64 : 64u * 64 * 64 * 64;
    const run_place place = blocks<Level>(*this)[n].find(k);
    if (place.child == run_place::none) {
        return n * span + place.offset;
    }
    const std::uint32_t child = n * word_bits + place.child;
    if constexpr (Level == 0) {
        return child * word_bits + static_cast<std::uint32_t>(std::countr_zero(run_starts(words[child], k)));
    } else {
        return find_in<Level - 1>(words, child, k);
    }
}

// A run that is too long for the whole tree is found out at the root; below it `find_in` needs no such test.
std::optional<std::uint32_t> run_index::find(std::span<const std::uint64_t> words, std::uint32_t k) const {
    if (root_.longest < k) {
        return std::nullopt;
    }
    switch (top_) {
        case 0: return find_in<0>(words, 0, k);
        case 1: return find_in<1>(words, 0, k);
        default: return find_in<2>(words, 0, k);
    }
}

// Checks the summaries of one level that are not stale against those of the level below, and the mask of full children
// against the summaries. A summary that is stale may hold anything.
template <int Level>
absl::Status run_index::validate_level(std::span<const std::uint64_t> words) const {
    const auto& level = blocks<Level>(*this);
    for (std::uint32_t n = 0; n < level.size(); ++n) {
        for (std::uint32_t i = 0; i < word_bits; ++i) {
            const std::uint32_t child = n * word_bits + i;
            const bool stale = (stale_[Level][n] & bit_of(i)) != 0;
            // Level 0 compares with the leaf words, the levels above with the blocks below them. Children past the end
            // of the tree must have the summary of a child without free segments.
            run_summary right;
            if constexpr (Level == 0) {
                right = child < words.size() ? summary_of(words[child]) : run_summary{};
            } else if (child < blocks<Level - 1>(*this).size()) {
                // The rule that `clean` and `refresh` rely on: a stale child implies a mark in its parent.
                if (!stale && stale_[Level - 1][child] != 0) {
                    return absl::InternalError(absl::StrFormat(
                        "or_tree: run summary of node %u at level %d has stale children but is not marked stale", child,
                        Level));
                }
                right = stale ? run_summary{} : blocks<Level - 1>(*this)[child].summary();
            }
            const run_summary has = level[n].get(i);
            if (!stale && (has != right || ((level[n].full & bit_of(i)) != 0) != (has.prefix == level[n].span))) {
                return absl::InternalError(absl::StrFormat(
                    "or_tree: run summary of word %u at level %d is prefix %u, suffix %u, longest %u; its segments "
                    "make it %u, %u, %u",
                    child, Level, has.prefix, has.suffix, has.longest, right.prefix, right.suffix, right.longest));
            }
        }
    }
    return absl::OkStatus();
}

// From the leaves upwards, so that the first wrong summary is the one reported; then the root against the top block.
absl::Status run_index::validate(std::span<const std::uint64_t> words) const {
    absl::Status s = validate_level<0>(words);
    run_summary right = words_[0].summary();
    if (s.ok() && top_ >= 1) {
        s = validate_level<1>(words);
        right = nodes_[0].summary();
    }
    if (s.ok() && top_ >= 2) {
        s = validate_level<2>(words);
        right = groups_[0].summary();
    }
    if (s.ok() && clean() && root_ != right) {
        s = absl::InternalError(absl::StrFormat(
            "or_tree: the root's longest run is recorded as %u, its nodes make it %u", root_.longest, right.longest));
    }
    return s;
}

}  // namespace orchard::detail
