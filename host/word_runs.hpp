// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs of set bits in 64-bit words: the arithmetic that the OR-tree and the segment directory share.
/// Bit i of word w stands for segment 64 * w + i, so the lowest segment is the least significant bit.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "uvm/geometry/geometry.hpp"

namespace orchard::detail {

/// Bits of a word, and children of an OR-tree node.
inline constexpr std::uint32_t word_bits = 64;

/// Words that hold `n` bits.
constexpr std::uint32_t words_for(std::uint32_t n) { return n / word_bits + (n % word_bits != 0 ? 1 : 0); }

/// Bit `i` of a word, `i` modulo 64.
constexpr std::uint64_t bit_of(std::uint32_t i) { return std::uint64_t{1} << (i % word_bits); }

/// A word in which `count` bits from `first` on are set; 1 <= count, first + count <= 64.
constexpr std::uint64_t bits_from(std::uint32_t first, std::uint32_t count) {
    return (~std::uint64_t{0} >> (word_bits - count)) << first;
}

/// True where [run.first, run.first + run.count) lies inside [0, size); never overflows.
constexpr bool lies_inside(segment_run run, std::uint32_t size) {
    return to_underlying(run.first) <= size && run.count <= size - to_underlying(run.first);
}

/// Calls `visit(word index, mask)` for each word that the run [first, first + count) touches, in order, and stops at
/// the first call that returns false. Returns whether all returned true.
template <class Visit>
constexpr bool every_word(std::uint32_t first, std::uint32_t count, Visit&& visit) {
    while (count != 0) {
        const std::uint32_t offset = first % word_bits;
        const std::uint32_t here = count < word_bits - offset ? count : word_bits - offset;
        if (!visit(std::size_t{first / word_bits}, bits_from(offset, here))) {
            return false;
        }
        first += here;
        count -= here;
    }
    return true;
}

/// Bit i of the answer is set where bits i to i + k - 1 of `x` are all set; 1 <= k <= 64. Cost: log2 k steps.
constexpr std::uint64_t run_starts(std::uint64_t x, std::uint32_t k) {
    for (std::uint32_t have = 1; have < k;) {
        const std::uint32_t step = have < k - have ? have : k - have;
        x &= x >> step;
        have += step;
    }
    return x;
}

/// Length of the longest run of set bits in `x`, 0 to 64. Cost: 2 steps where no two neighbours are set, as in most
/// words of a full heap; otherwise 12 steps without a branch that depends on the bits (in a heap that is half full such
/// a branch would be guessed wrong each second time).
constexpr std::uint32_t longest_run_of(std::uint64_t x) {
    if ((x & (x >> 1)) == 0) {
        return x != 0 ? 1 : 0;
    }
    std::uint64_t starts[6] = {x, 0, 0, 0, 0, 0};  // starts[j]: where runs of 2^j start
    for (std::uint32_t j = 0; j < 5; ++j) {
        starts[j + 1] = starts[j] & (starts[j] >> (1u << j));
    }
    std::uint32_t length = 0;
    std::uint64_t longest = ~std::uint64_t{0};  // where runs of `length` start
    for (std::uint32_t j = 6; j-- != 0;) {
        const std::uint64_t longer = longest & (starts[j] >> length);
        const bool any = longer != 0;
        longest = any ? longer : longest;
        length += std::uint32_t{any} << j;
    }
    return length + (~x == 0 ? 1 : 0);
}

}  // namespace orchard::detail
