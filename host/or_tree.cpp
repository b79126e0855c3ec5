// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The OR-tree of free segments; see or_tree.hpp.

#include "host/or_tree.hpp"

#include <algorithm>

#include <absl/strings/str_format.h>

namespace orchard {

using detail::bit_of;
using detail::every_word;
using detail::word_bits;
using detail::words_for;

or_tree::or_tree(std::uint32_t segments, bool all_free)
    : size_(std::min(segments, max_segments)),
      words_(words_for(size_)),
      leaves_(std::max(words_, 1u)),
      inner_levels_(0),
      runs_(std::max(words_, 1u)) {
    // Each inner level has one word for 64 words of the level below, until one word is left: 2^24 segments are 2^18
    // leaf words and 4,096, 64 and 1 inner words. A tree of at most 64 segments has no inner level.
    for (std::uint32_t below = words_; below > 1; ++inner_levels_) {
        below = words_for(below);
        inner_[inner_levels_].resize(below);
    }
    if (all_free) {
        give_back_many({segment_index{0}, size_});
    }
}

// As `find_run`, and takes the run. The hint moves up to the lowest word that is not 0, so that the next search starts
// there, too. A single segment needs no search for runs.
std::optional<segment_index> or_tree::take_run(std::uint32_t k) {
    if (k == 1) {
        return take_lowest();
    }
    if (k == 0 || k > free_) {
        return std::nullopt;
    }
    hint_ = lowest_word();
    const std::optional<segment_index> first = find_from(hint_, k);
    if (first) {
        clear({*first, k});
    }
    return first;
}

// Reads the hint but does not move it: the function is const, and the next `take_lowest` moves it.
std::optional<segment_index> or_tree::find_run(std::uint32_t k) const {
    if (k == 0 || k > free_) {
        return std::nullopt;
    }
    return find_from(lowest_word(), k);
}

// The summaries are a cache: a refresh changes no answer of the tree.
std::uint32_t or_tree::longest_run() const {
    runs_.refresh(free_words());
    return runs_.known_longest();
}

// Returns the lowest run of k, or nothing. `w` is the lowest leaf word that is not 0; 1 <= k <= free_. If the summaries
// are up to date and say that no run is that long, nothing is searched: a request that must fail costs little, however
// often a full heap is asked.
std::optional<segment_index> or_tree::find_from(std::uint32_t w, std::uint32_t k) const {
    if (runs_.clean() && k > runs_.known_longest()) {
        return std::nullopt;
    }
    std::optional<std::uint32_t> first = probe(w, k);
    if (!first) {
        runs_.refresh(free_words());
        first = runs_.find(free_words(), k);
    }
    return first ? std::optional(segment_index{*first}) : std::nullopt;
}

// Returns the lowest run of k that ends within a few words from `w` on, or nothing if there is none. Segments are
// handed out lowest first, so that a heap without fragmentation has its lowest run here. Eight words cost about as much
// as a refresh of the summaries, so that neither search costs much more than the other.
//
// A run may cross words. `carry` is the length of the run that reaches the end of the words before w:
//
//     k = 6      word w-1: ...0111          word w: 1110...           carry 3 + prefix 3 = 6: the run begins
//                (bits in the order of segments, lowest first)         3 segments before word w
std::optional<std::uint32_t> or_tree::probe(std::uint32_t w, std::uint32_t k) const {
    constexpr std::uint32_t probed_words = 8;
    const std::uint32_t end = std::min(words_, w + probed_words);
    std::uint32_t carry = 0;  // length of the run that ends where word w begins
    for (; w < end; ++w) {
        const std::uint64_t word = leaves_[w];
        const auto prefix = static_cast<std::uint32_t>(std::countr_one(word));
        // First the run that comes from the words before: it begins lower than any run inside this word.
        if (carry + prefix >= k) {
            return w * word_bits - carry;
        }
        if (prefix == word_bits) {
            carry += word_bits;
            continue;
        }
        if (k < word_bits) {
            if (const std::uint64_t starts = detail::run_starts(word, k); starts != 0) {
                return w * word_bits + static_cast<std::uint32_t>(std::countr_zero(starts));
            }
        }
        carry = static_cast<std::uint32_t>(std::countl_one(word));
    }
    return std::nullopt;
}

// Returns the lowest leaf word that is not 0. Goes up from the hint to the first word that is not 0, then down along
// the lowest bits. Words below the hint are 0, so that this lowest bit is the lowest of all: the words on the way up
// contain no bits of lower leaf words. The tree must not be empty. Cost: at most two words a level.
std::uint32_t or_tree::lowest_word() const {
    if (leaves_[hint_] != 0) {
        return hint_;
    }
    std::uint32_t w = hint_;
    std::uint32_t level = 0;
    // Up: the lowest set bit of a word that is not 0 leads to the lowest leaf word below it.
    for (; level < inner_levels_; ++level) {
        w /= word_bits;
        if (inner_[level][w] != 0) {
            break;
        }
    }
    // Down: one word a level, from the one that was found.
    for (++level; level-- != 0;) {
        w = w * word_bits + static_cast<std::uint32_t>(std::countr_zero(inner_[level][w]));
    }
    return w;
}

// Looks at all words first, and changes them only if every segment is free, so that a run that is rejected changes
// nothing.
bool or_tree::take(segment_run run) {
    if (!detail::lies_inside(run, size_)) {
        return false;
    }
    const bool all_free = every_word(to_underlying(run.first), run.count,
                                     [&](std::size_t w, std::uint64_t mask) { return (leaves_[w] & mask) == mask; });
    if (all_free && run.count != 0) {
        clear(run);
    }
    return all_free;
}

// Takes a run of at least one segment, all free: clears its bits, and in each inner level the bits of the children that
// have become 0. [first, last] is the range of bits to clear at the level under work. Only its first and last child
// word can keep other bits; those between lie inside the run and are 0 afterwards. If all of them keep other bits, no
// level above changes.
//
//     run [60, 200)
//     leaf words   w=0: kept     w=1: 0     w=2: 0     w=3: kept       then bits 1 and 2 are cleared at level 1
//                  [0, 60) free                        [200, 256) free
void or_tree::clear(segment_run run) {
    std::uint32_t first = to_underlying(run.first);
    std::uint32_t last = first + run.count - 1;
    free_ -= run.count;
    std::vector<std::uint64_t>* level = &leaves_;
    runs_.mark(first / word_bits, last / word_bits);
    for (std::uint32_t above = 0;; ++above) {
        every_word(first, last - first + 1, [&](std::size_t w, std::uint64_t mask) {
            (*level)[w] &= ~mask;
            return true;
        });
        // Words entirely inside the run are 0 now; the first and the last may not be.
        first /= word_bits;
        last /= word_bits;
        const std::uint32_t kept_first = (*level)[first] != 0 ? 1 : 0;
        const std::uint32_t kept_last = last != first && (*level)[last] != 0 ? 1 : 0;
        if (above == inner_levels_ || last - first + 1 == kept_first + kept_last) {
            return;
        }
        first += kept_first;
        last -= kept_last;
        level = &inner_[above];
    }
}

// As `give_back`, for any number of segments, also 0. Checks all words, then sets the bits. A level above is changed
// only if some word was 0 before; a word that was not 0 is marked there already, and its mark is set once more, which
// is harmless.
bool or_tree::give_back_many(segment_run run) {
    if (!detail::lies_inside(run, size_)) {
        return false;
    }
    std::uint32_t first = to_underlying(run.first);
    std::uint32_t count = run.count;
    if (!every_word(first, count, [&](std::size_t w, std::uint64_t mask) { return (leaves_[w] & mask) == 0; })) {
        return false;
    }
    if (count == 0) {
        return true;
    }
    free_ += count;
    hint_ = std::min(hint_, first / word_bits);
    runs_.mark(first / word_bits, (first + count - 1) / word_bits);
    std::vector<std::uint64_t>* level = &leaves_;
    for (std::uint32_t above = 0;; ++above) {
        bool known_above = true;
        every_word(first, count, [&](std::size_t w, std::uint64_t mask) {
            known_above &= (*level)[w] != 0;
            (*level)[w] |= mask;
            return true;
        });
        if (known_above || above == inner_levels_) {
            return true;
        }
        const std::uint32_t last = (first + count - 1) / word_bits;
        first /= word_bits;
        count = last - first + 1;
        level = &inner_[above];
    }
}

// Updates the inner words after leaf word `w` has changed from 0. A parent that was not 0 is known further up.
//
//     leaf word 70 was 0:   level 1, word 1: bit 6 is set. If that word was 0: level 2, word 0: bit 1 is set
void or_tree::set_above(std::uint32_t w) {
    for (std::uint32_t level = 0; level < inner_levels_; ++level) {
        std::uint64_t& word = inner_[level][w / word_bits];
        const bool known = word != 0;
        word |= bit_of(w);
        if (known) {
            return;
        }
        w /= word_bits;
    }
}

// Updates the inner words after leaf word `w` has become 0. A parent that still has other bits stays marked further up.
void or_tree::clear_above(std::uint32_t w) {
    for (std::uint32_t level = 0; level < inner_levels_; ++level) {
        std::uint64_t& word = inner_[level][w / word_bits];
        word &= ~bit_of(w);
        if (word != 0) {
            return;
        }
        w /= word_bits;
    }
}

// Checks in this order: bits past the end, words below the hint, the count, each inner level from the leaves upwards,
// and the run summaries. The first fault found is reported.
absl::Status or_tree::validate() const {
    std::uint32_t free = 0;
    for (std::uint32_t w = 0; w < leaves_.size(); ++w) {
        const std::uint32_t used = std::min(word_bits, size_ - std::min(size_, w * word_bits));
        if (used < word_bits && (leaves_[w] >> used) != 0) {
            return absl::InternalError(
                absl::StrFormat("or_tree: leaf word %u is %#x: it has free segments past the %u "
                                "that the tree covers",
                                w, leaves_[w], size_));
        }
        if (w < hint_ && leaves_[w] != 0) {
            return absl::InternalError(
                absl::StrFormat("or_tree: leaf word %u is %#x: it must be 0, as all below the "
                                "hint, word %u",
                                w, leaves_[w], hint_));
        }
        free += static_cast<std::uint32_t>(std::popcount(leaves_[w]));
    }
    if (free != free_) {
        return absl::InternalError(
            absl::StrFormat("or_tree: %u segments are counted as free, the leaf words hold %u", free_, free));
    }
    const std::vector<std::uint64_t>* below = &leaves_;
    for (std::uint32_t level = 0; level < inner_levels_; ++level) {
        for (std::uint32_t w = 0; w < inner_[level].size(); ++w) {
            std::uint64_t right = 0;
            // The last word of a level may have fewer than 64 children.
            for (std::uint32_t i = 0; i < word_bits && w * word_bits + i < below->size(); ++i) {
                right |= (*below)[w * word_bits + i] != 0 ? bit_of(i) : 0;
            }
            if (inner_[level][w] != right) {
                return absl::InternalError(
                    absl::StrFormat("or_tree: word %u at level %u is %#x, its children make it %#x", w, level + 1,
                                    inner_[level][w], right));
            }
        }
        below = &inner_[level];
    }
    return runs_.validate(leaves_);
}

}  // namespace orchard
