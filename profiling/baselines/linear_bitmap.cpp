// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// First fit over a bitmap. A run may begin in one word and end in another; `carry` joins them.

#include "profiling/baselines/linear_bitmap.hpp"

#include <bit>

#include "host/word_runs.hpp"

namespace orchard::baselines {

using orchard::detail::every_word;
using orchard::detail::word_bits;

linear_bitmap::linear_bitmap(std::uint32_t segments, bool all_free)
    : size_(segments), words_(orchard::detail::words_for(segments)) {
    if (all_free) {
        // The whole range lies inside, and nothing of it is free yet: it cannot fail.
        static_cast<void>(give_back({segment_index{0}, segments}));
    }
}

std::optional<segment_index> linear_bitmap::find_run(std::uint32_t k) const {
    // A request for 0 segments has no place.
    if (k == 0) {
        return std::nullopt;
    }
    std::uint32_t carry = 0;  // length of the run that ends at the beginning of the word
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
        const std::uint64_t word = words_[w];
        if (word == 0) {
            carry = 0;
            continue;
        }
        // A run that begins in an earlier word ends in this one's lowest bits.
        const auto prefix = static_cast<std::uint32_t>(std::countr_one(word));
        if (carry + prefix >= k) {
            return segment_index{w * word_bits - carry};
        }
        // The whole word is free: the run goes on.
        if (prefix == word_bits) {
            carry += word_bits;
            continue;
        }
        // A run inside the word; one of 64 or more cannot lie inside.
        if (k < word_bits) {
            if (const std::uint64_t starts = orchard::detail::run_starts(word, k); starts != 0) {
                return segment_index{w * word_bits + static_cast<std::uint32_t>(std::countr_zero(starts))};
            }
        }
        // The highest bits of the word may begin a run of the next ones.
        carry = static_cast<std::uint32_t>(std::countl_one(word));
    }
    return std::nullopt;
}

std::optional<segment_index> linear_bitmap::take_run(std::uint32_t k) {
    const std::optional<segment_index> first = find_run(k);
    if (!first) {
        return std::nullopt;
    }
    every_word(to_underlying(*first), k, [&](std::size_t w, std::uint64_t mask) {
        // Visited word by word; `true` goes on.
        words_[w] &= ~mask;
        return true;
    });
    return first;
}

bool linear_bitmap::give_back(segment_run run) {
    if (!orchard::detail::lies_inside(run, size_)) {
        return false;
    }
    const std::uint32_t first = to_underlying(run.first);
    // All or nothing: the check comes before the first change.
    if (!every_word(first, run.count, [&](std::size_t w, std::uint64_t mask) { return (words_[w] & mask) == 0; })) {
        return false;
    }
    return every_word(first, run.count, [&](std::size_t w, std::uint64_t mask) {
        words_[w] |= mask;
        return true;
    });
}

}  // namespace orchard::baselines
