// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs of set bits in 64-bit words: arithmetic that the OR-tree, the portion tree and the segment directory share. Bit
/// i of word w stands for segment 64 * w + i: the lowest segment is the least significant bit.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "uvm/geometry/geometry.hpp"

namespace orchard::detail {

/// The number of bits of a word, and of children of an OR-tree node.
inline constexpr std::uint32_t word_bits = 64;

/// Returns the number of words that hold `n` bits. Written as a quotient and a remainder, because n + 63 would overflow
/// for the largest `n`.
constexpr std::uint32_t words_for(std::uint32_t n) { return n / word_bits + (n % word_bits != 0 ? 1 : 0); }

/// Returns the word with only bit `i` modulo 64 set.
constexpr std::uint64_t bit_of(std::uint32_t i) { return std::uint64_t{1} << (i % word_bits); }

/// Returns a word with `count` bits set from `first` on; 1 <= count, first + count <= 64. Built from all ones by a
/// shift to the right, so that count = 64 needs no case of its own: a shift of 1 to the left by 64 would be undefined.
constexpr std::uint64_t bits_from(std::uint32_t first, std::uint32_t count) {
    return (~std::uint64_t{0} >> (word_bits - count)) << first;
}

/// Returns true if [run.first, run.first + run.count) lies inside [0, size). The sum is not computed, since a request
/// from a kernel may hold any numbers, and a sum that overflows would look small. An empty run at `size` lies inside.
constexpr bool lies_inside(segment_run run, std::uint32_t size) {
    return to_underlying(run.first) <= size && run.count <= size - to_underlying(run.first);
}

/// Calls `visit(word index, mask)` for each word that the run [first, first + count) touches, in ascending order, until
/// a call returns false. Returns true if all calls returned true; true for an empty run. Cost: one call for each word,
/// that is at most count / 64 + 2 calls.
///
///     run [60, 70)    word 0: bits 60 to 63    word 1: bits 0 to 5
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

/// Returns the starts of runs: bit i is set if bits i to i + k - 1 of `x` are all set; 1 <= k <= 64. Cost: log2 k
/// steps, since each step ANDs the starts of runs of `have` bits with themselves, shifted by up to `have`.
///
///     bit         7 6 5 4 3 2 1 0
///     x           0 1 1 1 0 1 1 0
///     runs of 2   0 0 1 1 0 0 1 0    x & x >> 1
///     runs of 3   0 0 0 1 0 0 0 0    the line above & itself >> 1
constexpr std::uint64_t run_starts(std::uint64_t x, std::uint32_t k) {
    for (std::uint32_t have = 1; have < k;) {
        const std::uint32_t step = have < k - have ? have : k - have;
        x &= x >> step;
        have += step;
    }
    return x;
}

/// Returns the length of the longest run of set bits in `x`, 0 to 64. Cost: 2 steps if no two neighbours are set, as in
/// most words of a full heap. Otherwise 12 steps without a branch that depends on the bits: in a half-full heap, such a
/// branch would be mispredicted half of the time.
///
/// The length is found bit by bit, from 32 down to 1. If a run of `length` bits starts at i, and a run of 2^j bits
/// starts at i + length, then a run of length + 2^j bits starts at i. A word with a run of one length has runs of all
/// shorter lengths, so that an accepted bit of the length is never taken back. The six bits reach 63; a word of 64 ones
/// is the one case that they miss, hence the last addition.
///
///     longest run 5:   32 no   16 no   8 no   4 yes: length 4   2 no: 6 is too long   1 yes: length 5
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
