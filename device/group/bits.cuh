// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Operations on the bits of 32-bit and 64-bit words. No function shifts by the width of a word, which is undefined in
/// C++ and differs between machines. None accesses memory, and any lane calls each of them alone. `Word` is
/// `std::uint32_t` or `std::uint64_t`; examples show eight bits, the lowest one at the right.

#include <cstdint>

#include "device/simt/lane.cuh"

namespace orchard::device {

/// The number of bits of a word.
template <class Word>
inline constexpr std::uint32_t width_of = sizeof(Word) * 8;

/// Returns `n` ones from bit `from` on; `from` + `n` is at most the width. `ones(3, 2)` is 00011100. The test for 0
/// keeps the right shift below the width.
template <class Word>
ORCHARD_INLINE Word ones(std::uint32_t n, std::uint32_t from = 0) {
    return n == 0 ? Word{0} : static_cast<Word>((static_cast<Word>(~Word{0}) >> (width_of<Word> - n)) << from);
}

/// Returns the lowest one alone; 0 if there is none: 01101000 gives 00001000. The negation inverts all bits above the
/// lowest one, and keeps that one.
template <class Word>
ORCHARD_INLINE Word lowest_one(Word bits) {
    return bits & (~bits + 1);
}

/// Returns the first one at or above bit `start` alone, or the lowest one if there is none above; 0 if `bits` is 0.
/// From 00010010, `start` 2 gives 00010000, and `start` 5 gives 00000010. With a different `start` in each lane, lanes
/// that see the same word choose different bits.
template <class Word>
ORCHARD_INLINE Word one_from(Word bits, std::uint32_t start) {
    const Word above = bits & static_cast<Word>(~ones<Word>(start));
    return lowest_one(above != 0 ? above : bits);
}

/// Returns the `n` lowest ones of `bits`, or all ones if there are fewer. Cost: a step for each one that is kept;
/// `lowest_ones` (device/state/slab.cuh) takes the same number of steps for every `n`.
template <class Word>
ORCHARD_INLINE Word first_ones(Word bits, int n) {
    Word left = bits;
    for (int i = 0; i < n && left != 0; ++i) {
        left &= left - 1;
    }
    return bits & ~left;
}

/// Returns the index of the one in `bits` that has `rank` ones below it; `rank` is less than the number of ones. Binary
/// search by five or six population counts, whatever the rank (`fks` in the paper that docs/random_walk.md names).
///
/// `at` is the beginning of a range that contains the result, and `rank` is counted from there. If the lower half of
/// the range has too few ones, the result lies in the upper half. For bits = 01011010 and rank 2:
///
///     range      ones in the lower half     `rank` is
///     0 to 7     2  (bits 1, 3)             2: go to 4 to 7, rank becomes 0
///     4 to 7     1  (bit 4)                 0: stay at 4 to 5
///     4 to 5     1  (bit 4)                 0: stay at 4, which is the result
template <class Word>
ORCHARD_INLINE int nth_one(Word bits, int rank) {
    int at = 0;
    ORCHARD_UNROLL
    for (std::uint32_t half = width_of<Word> / 2; half != 0; half /= 2) {
        const int below = simt::popcount(static_cast<Word>(bits >> at & ones<Word>(half)));
        if (rank >= below) {
            rank -= below;
            at += static_cast<int>(half);
        }
    }
    return at;
}

/// Returns the index of a one in `bits`, which is not 0. Each one is chosen by about as many values of `random`.
template <class Word>
ORCHARD_INLINE int random_one(Word bits, std::uint32_t random) {
    const auto count = static_cast<std::uint64_t>(simt::popcount(bits));
    return nth_one(bits, static_cast<int>(random * count >> 32));
}

/// Returns the number of ones below the lowest 0: 3 for 01010111, the width if all bits are ones. By this number a run
/// that ends the word below goes on in this word (device/published/run_search.cuh).
template <class Word>
ORCHARD_INLINE std::uint32_t ones_at_bottom(Word bits) {
    const Word zeros = static_cast<Word>(~bits);
    return zeros == 0 ? width_of<Word> : static_cast<std::uint32_t>(simt::lowest_bit(zeros));
}

/// Returns the number of ones above the highest 0: 2 for 11010111, the width if all bits are ones. By this number a run
/// that begins the word above extends down into this word.
template <class Word>
ORCHARD_INLINE std::uint32_t ones_at_top(Word bits) {
    const Word zeros = static_cast<Word>(~bits);
    if (zeros == 0) {
        return width_of<Word>;
    }
    // The seam has `highest_bit` for 32 bits only.
    if constexpr (width_of<Word> == 32) {
        return 31 - static_cast<std::uint32_t>(simt::highest_bit(zeros));
    } else {
        const auto high = static_cast<std::uint32_t>(zeros >> 32);
        return high != 0 ? 31 - static_cast<std::uint32_t>(simt::highest_bit(high))
                         : 63 - static_cast<std::uint32_t>(simt::highest_bit(static_cast<std::uint32_t>(zeros)));
    }
}

/// Returns the length of the longest run of ones. Cost: one step for each one of that run. Each step shortens every run
/// by one, so that the longest run vanishes last: 01110110, 00110010, 00010000, 0 are three steps.
template <class Word>
ORCHARD_INLINE std::uint32_t longest_run(Word bits) {
    std::uint32_t length = 0;
    for (; bits != 0; bits &= bits >> 1) {
        ++length;
    }
    return length;
}

/// Returns the bits at which runs of `n` ones begin, runs that overlap included; 1 <= `n` <= the width. For n = 2,
/// 01110110 gives 00110010. Cost: log2(n) steps, rounded up, since each step doubles the length that is known. For
/// n = 5 the lengths are 1, 2, 4, 5.
template <class Word>
ORCHARD_INLINE Word run_starts(Word bits, std::uint32_t n) {
    // Bit i of `starts`: bits i to i + have - 1 are ones. A run of have + more ones begins at i if runs of `have` ones
    // begin at i and at i + more, which overlap or touch because more <= have. The shifts are less than n.
    Word starts = bits;
    for (std::uint32_t have = 1; have < n && starts != 0;) {
        const std::uint32_t more = have < n - have ? have : n - have;
        starts &= starts >> more;
        have += more;
    }
    return starts;
}

/// Returns where the lowest run of `n` ones begins; the width if there is none. 1 <= `n` <= the width. Cost: as
/// `run_starts`.
template <class Word>
ORCHARD_INLINE std::uint32_t find_ones(Word bits, std::uint32_t n) {
    const Word starts = run_starts(bits, n);
    return starts == 0 ? width_of<Word> : static_cast<std::uint32_t>(simt::lowest_bit(starts));
}

}  // namespace orchard::device
