// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Which segments of a super chunk are free, as a 64-ary OR-tree.

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

/// A set of free segments that hands out the lowest one, or the lowest run of k.
///
/// One bit a segment, 1 = free; each inner bit is the OR of the 64 bits of its child word, so that a million segments
/// are four levels, 130 KiB. Source: Zhang et al., *AlignMalloc* (TPDS 2025), section VI.B, whose tree is binary and
/// searches runs from successor to successor in O(k log n); here runs are found by summaries (`detail::run_block`).
///
///     level 2 (root)   [1 1 0 ...]                       bit i: some segment of [4096 i, 4096 (i + 1)) is free
///     level 1          [1 0 1 ...] [0 1 0 ...] ...       bit i: leaf word i has a free segment
///     leaf words       [0110...] [0000...] [1011...]     bit i: segment i is free
///
/// Not thread-safe: one owner, the service. Nothing is allocated after construction. Every function that is given a
/// run checks it and changes nothing where it answers false. An empty run lies in every tree that it starts in (or at
/// the end of): taking it or giving it back succeeds and does nothing.
class or_tree {
public:
    /// A tree of `segments` segments (0 to `max_segments`; more are not covered: see `size()`), all free or all taken.
    /// Segments that have no physical memory yet are simply not given back yet.
    or_tree(std::uint32_t segments, bool all_free);

    /// Takes the lowest free segment; nothing where none is free. Cost: one word; where the word was the last free
    /// one of its 64 (4,096, ...) neighbours, one more for each such level.
    std::optional<segment_index> take_lowest() {
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

    /// Takes the lowest run of `k` free segments and answers its first; nothing where there is none, or k is 0. The
    /// lowest run is the one that starts lowest, not the one that fits best. Cost: of `find_run`, plus k / 64 words.
    std::optional<segment_index> take_run(std::uint32_t k);

    /// Where `take_run(k)` would take. Cost: 8 words from the lowest free one; where the run is not there, one node of
    /// 64 summaries a level, after about 10 ns for each word that changed since runs were last asked for
    /// (`detail::run_index::refresh`): single segments do not pay for what only runs need.
    [[nodiscard]] std::optional<segment_index> find_run(std::uint32_t k) const;

    /// Takes exactly `run`. False where part of it is taken or lies outside. Cost: 1 / 64 of its segments in words.
    [[nodiscard]] bool take(segment_run run);

    /// Gives `run` back, or gives it for the first time (memory newly committed). False where part of it is free
    /// already or lies outside: an error of the caller, whose record of that is `segment_directory`.
    /// Cost: one word for one segment, otherwise 1 / 64 of the run's segments in words.
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

    /// Whether segment `i` is free; false where it lies outside.
    [[nodiscard]] bool is_free(segment_index i) const {
        const std::uint32_t index = to_underlying(i);
        return index < size_ && (leaves_[index / detail::word_bits] & detail::bit_of(index)) != 0;
    }
    /// Free segments.
    [[nodiscard]] std::uint32_t free_count() const { return free_; }
    /// Segments of the longest free run. Cost: as `find_run` without its last part.
    [[nodiscard]] std::uint32_t longest_run() const;
    /// Segments that the tree covers.
    [[nodiscard]] std::uint32_t size() const { return size_; }
    /// The bits themselves, 64 segments a word, lowest segment in the least significant bit; bits past `size()` are 0.
    [[nodiscard]] std::span<const std::uint64_t> free_words() const { return {leaves_.data(), words_}; }

    /// Recomputes everything from the leaf words: each inner word, the count of free segments, the hint and the run
    /// summaries. `InternalError` names the first word that is wrong and what it should be. Cost: O(size).
    [[nodiscard]] absl::Status validate() const;

private:
    friend struct or_tree_peer;

    [[nodiscard]] std::uint32_t lowest_word() const;
    [[nodiscard]] std::optional<std::uint32_t> probe(std::uint32_t w, std::uint32_t k) const;
    [[nodiscard]] std::optional<segment_index> find_from(std::uint32_t w, std::uint32_t k) const;
    bool give_back_many(segment_run run);
    void clear(segment_run run);
    void set_above(std::uint32_t w);
    void clear_above(std::uint32_t w);

    std::uint32_t size_;
    std::uint32_t words_;     ///< leaf words in use, of leaves_.size() >= 1
    std::uint32_t free_ = 0;  ///< set bits of leaves_
    std::uint32_t hint_ = 0;  ///< every leaf word below this one is 0
    std::vector<std::uint64_t> leaves_;
    std::uint32_t inner_levels_;                       ///< 0 to 3; the last in use is one word
    std::array<std::vector<std::uint64_t>, 3> inner_;  ///< [l]: bit i is the OR of word i of the level below
    mutable detail::run_index runs_;                   ///< a cache: brought up to date when asked
};

}  // namespace orchard
