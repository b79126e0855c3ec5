// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The run summaries of a whole OR-tree, brought up to date only when a run is searched.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/status.h>

#include "host/run_block.hpp"

namespace orchard {

struct or_tree_peer;

namespace detail {

/// Summaries of the leaf words, of 64 leaf words, of 4,096 and so on, up to one block for the whole tree. Each block
/// has a mask of the children whose summary is *stale*. A change to one segment only sets a bit of that mask. The next
/// search updates each stale summary once, and continues upwards only from summaries that have really changed.
///
///     level 2   [ 64 x 262,144 segments ]            stale: 1 bit each
///     level 1   [ 64 x 4,096 ] ...                   stale: 1 bit each
///     level 0   [ 64 x 64 ] [ 64 x 64 ] ...          stale: 1 bit a leaf word
///     leaf words (of the OR-tree)
///
/// A mask that is not 0 implies that its block is marked stale in the block above, and so on up to the root. Therefore
/// `clean` reads one word, and a refresh finds every stale child from the root down.
///
/// Requests for single segments are far more frequent than requests for runs. They pay for one `mark`, and the search
/// for a run pays for the summaries of all changes since the last one.
///
/// Not thread-safe: only the OR-tree uses it. The leaf words belong to the tree and are passed in, so that they are
/// stored once.
class run_index {
public:
    /// Creates the summaries of a tree of `leaf_words` words (1 to 2^18), with all segments taken: no run, and nothing
    /// stale.
    explicit run_index(std::uint32_t leaf_words);

    /// Marks leaf word `w` as changed. Cost: one load and one store; a few more for the first change among its 64
    /// neighbours.
    void mark(std::uint32_t w) {
        std::uint64_t& stale = stale_[0][w / word_bits];
        if (stale == 0) [[unlikely]] {
            mark_above(w / word_bits);
        }
        stale |= bit_of(w);
    }
    /// Marks leaf words `first` to `last` as changed, both included. Cost: one store for 64 words.
    void mark(std::uint32_t first, std::uint32_t last);

    /// Returns true if every summary is up to date. Cost: one load.
    [[nodiscard]] bool clean() const { return stale_[top_][0] == 0; }
    /// Returns the length of the tree's longest run as of the last refresh; the current one if `clean()`.
    [[nodiscard]] std::uint32_t known_longest() const { return root_.longest; }

    /// Brings all summaries up to date with `words`, the tree's leaf words. Cost: 7 to 10 ns for each stale word, and
    /// up to 20 ns more for each node in which a summary has changed. Measured: 116 us if all 16,384 words of a million
    /// segments, half of them free, are stale; 7 us for 65,536 segments.
    void refresh(std::span<const std::uint64_t> words);
    /// Returns the first segment of the lowest run of `k >= 1` segments; nothing if there is none. `clean()` must hold,
    /// and `words` must be those of the last refresh. Cost: one node of 64 children a level.
    [[nodiscard]] std::optional<std::uint32_t> find(std::span<const std::uint64_t> words, std::uint32_t k) const;

    /// Recomputes every summary that is not stale. Returns an error that names the first wrong node, if there is one.
    [[nodiscard]] absl::Status validate(std::span<const std::uint64_t> words) const;

private:
    friend struct orchard::or_tree_peer;

    // Blocks of different levels have different element types, so that they lie in three vectors. The level is a
    // template argument, and `blocks<Level>(*this)` is the vector.
    void mark_above(std::uint32_t block);
    template <int Level, class Self>
    static auto& blocks(Self& self);
    template <int Level>
    bool refresh_block(std::span<const std::uint64_t> words, std::uint32_t n);
    template <int Level>
    std::uint32_t find_in(std::span<const std::uint64_t> words, std::uint32_t n, std::uint32_t k) const;
    template <int Level>
    absl::Status validate_level(std::span<const std::uint64_t> words) const;

    // `run_block`'s first argument is the narrowest type that holds two spans, the second the segments below one child.
    std::uint32_t top_;                                          ///< the level that consists of one block: 0, 1 or 2
    run_summary root_;                                           ///< of the whole tree, as of the last refresh
    std::array<std::vector<std::uint64_t>, 3> stale_;            ///< [level], one word a block
    std::vector<run_block<std::uint8_t, 64>> words_;             ///< level 0: children are leaf words
    std::vector<run_block<std::int16_t, 64 * 64>> nodes_;        ///< level 1: children are blocks of level 0
    std::vector<run_block<std::int32_t, 64 * 64 * 64>> groups_;  ///< level 2: children are blocks of level 1
};

}  // namespace detail
}  // namespace orchard
