// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The set of free segments of a super chunk, as a 64-ary OR-tree.

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/status.h>

#include "host/run_index.hpp"
#include "host/word_runs.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard {

/// A set of free segments that hands out the lowest one, or the lowest run of k. Lowest first keeps the memory in use
/// dense: whole extents above it become free and can be decommitted.
///
/// One bit a segment, 1 = free. Each inner bit is the OR of the 64 bits of its child word, so that a million segments
/// take four levels, 130 KiB. The summaries of runs take another 69 KiB.
///
/// Source: Zhang et al., *AlignMalloc* (TPDS 2025), section VI.B. The tree of the paper is binary and searches runs
/// from successor to successor in O(k log n); here summaries of runs find them (`detail::run_block`).
///
///     level 2 (root)   [1 1 0 ...]                       bit i: some segment of [4096 i, 4096 (i + 1)) is free
///     level 1          [1 0 1 ...] [0 1 0 ...] ...       bit i: leaf word i has a free segment
///     leaf words       [0110...] [0000...] [1011...]     bit i: segment i is free
///
/// A bit of an inner word changes only if its child word becomes 0 or was 0. Most operations therefore change one leaf
/// word and no other.
///
/// Not thread-safe: only the service uses it. Nothing is allocated after construction. Every function that is given a
/// run checks it, and changes nothing if it returns false. An empty run is valid if its first segment is at most
/// `size()`: taking it or giving it back succeeds and does nothing.
class or_tree {
public:
    /// Creates a tree of `segments` segments, all free or all taken. `segments` is at most `max_segments`; a greater
    /// number is reduced to that (`size()`). A segment without physical memory counts as taken until `give_back` adds
    /// it.
    or_tree(std::uint32_t segments, bool all_free);

    /// Takes the lowest free segment; returns nothing if none is free. Cost: one word. If it was the last free segment
    /// of its word, one more word, and so on for each level whose word becomes 0. The next call then looks for the next
    /// word that is not 0, at most two words a level.
    std::optional<segment_index> take_lowest() {
        // The hint is the lowest word that may have a free segment. As long as it has one, no inner word is read.
        std::uint64_t word = leaves_[hint_];
        if (word == 0) [[unlikely]] {
            if (free_ == 0) {
                return std::nullopt;
            }
            hint_ = lowest_word();
            word = leaves_[hint_];
        }
        const std::uint32_t index = hint_ * detail::word_bits + static_cast<std::uint32_t>(std::countr_zero(word));
        word &= word - 1;
        leaves_[hint_] = word;
        --free_;
        runs_.mark(hint_);
        if (word == 0) {
            clear_above(hint_);
        }
        return segment_index{index};
    }

    /// Takes the lowest run of `k` free segments and returns its first; returns nothing if there is none, or k is 0.
    /// The lowest run is the one that begins lowest, not the one that fits best. Cost: as `find_run`, plus k / 64
    /// words.
    std::optional<segment_index> take_run(std::uint32_t k);

    /// Returns where `take_run(k)` would take its run; nothing if there is no such run. Cost: 8 words from the lowest
    /// free segment on. If the run is not there, one node of 64 summaries a level, after about 10 ns for each word that
    /// has changed since the last search for a run (`detail::run_index::refresh`). Single segments thus do not pay for
    /// what only runs need.
    [[nodiscard]] std::optional<segment_index> find_run(std::uint32_t k) const;

    /// Takes exactly `run`. Returns false if a segment of it is taken or outside. Cost: one word for each 64 segments.
    [[nodiscard]] bool take(segment_run run);

    /// Gives `run` back, or adds it for the first time (memory newly committed). Returns false if a segment of it is
    /// free already or outside; that is an error of the caller, and `segment_directory` has the record to explain it.
    /// Cost: one word for one segment, otherwise one word for each 64 segments.
    [[nodiscard]] bool give_back(segment_run run) {
        if (run.count != 1) {
            return give_back_many(run);
        }
        const std::uint32_t index = to_underlying(run.first);
        if (index >= size_) {
            return false;
        }
        const std::uint32_t w = index / detail::word_bits;
        const std::uint64_t word = leaves_[w];
        if ((word & detail::bit_of(index)) != 0) {
            return false;
        }
        leaves_[w] = word | detail::bit_of(index);
        ++free_;
        runs_.mark(w);
        if (word == 0) {
            set_above(w);
        }
        hint_ = w < hint_ ? w : hint_;
        return true;
    }

    /// Returns true if segment `i` is free; false if it is taken or outside.
    [[nodiscard]] bool is_free(segment_index i) const {
        const std::uint32_t index = to_underlying(i);
        return index < size_ && (leaves_[index / detail::word_bits] & detail::bit_of(index)) != 0;
    }
    /// Returns the number of free segments.
    [[nodiscard]] std::uint32_t free_count() const { return free_; }
    /// Returns the length of the longest free run, 0 if none is free. Cost: as `find_run` with a refresh, whether or
    /// not a run is found.
    [[nodiscard]] std::uint32_t longest_run() const;
    /// Returns the number of segments that the tree covers.
    [[nodiscard]] std::uint32_t size() const { return size_; }
    /// Returns the leaf words: 64 segments a word, the lowest segment in the least significant bit; bits past `size()`
    /// are 0.
    [[nodiscard]] std::span<const std::uint64_t> free_words() const { return {leaves_.data(), words_}; }

    /// Recomputes everything from the leaf words: each inner word, the count of free segments, the hint and the run
    /// summaries. Returns `InternalError`, which names the first wrong word and its right value, if they differ. Cost:
    /// O(size).
    [[nodiscard]] absl::Status validate() const;

private:
    friend struct or_tree_peer;

    // The searches below read the tree and do not change it, apart from the run summaries, which are a cache.
    [[nodiscard]] std::uint32_t lowest_word() const;
    [[nodiscard]] std::optional<std::uint32_t> probe(std::uint32_t w, std::uint32_t k) const;
    [[nodiscard]] std::optional<segment_index> find_from(std::uint32_t w, std::uint32_t k) const;
    // The changes of several segments, and the climb to the inner levels after one leaf word has changed.
    bool give_back_many(segment_run run);
    void clear(segment_run run);
    void set_above(std::uint32_t w);
    void clear_above(std::uint32_t w);

    std::uint32_t size_;                               ///< number of segments
    std::uint32_t words_;                              ///< leaf words in use; `leaves_` has at least one
    std::uint32_t free_ = 0;                           ///< number of set bits in `leaves_`
    std::uint32_t hint_ = 0;                           ///< every leaf word below this one is 0
    std::vector<std::uint64_t> leaves_;                ///< bit i of word w: segment 64 w + i is free
    std::uint32_t inner_levels_;                       ///< 0 to 3; the last level in use is one word
    std::array<std::vector<std::uint64_t>, 3> inner_;  ///< [l]: bit i is the OR of word i of the level below
    mutable detail::run_index runs_;                   ///< a cache, brought up to date when a run is searched
};

}  // namespace orchard
