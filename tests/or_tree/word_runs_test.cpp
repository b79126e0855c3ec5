// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The arithmetic of runs in one word, against counting bit by bit.

#include <random>

#include <gtest/gtest.h>

#include "host/run_block.hpp"
#include "host/word_runs.hpp"

namespace orchard::detail {
namespace {

std::uint32_t slow_longest(std::uint64_t x) {
    std::uint32_t longest = 0;
    for (std::uint32_t i = 0, length = 0; i < 64; ++i) {
        length = (x >> i & 1) != 0 ? length + 1 : 0;
        longest = std::max(longest, length);
    }
    return longest;
}

void expect_right(std::uint64_t x) {
    const std::uint32_t longest = slow_longest(x);
    ASSERT_EQ(longest_run_of(x), longest) << x;
    for (std::uint32_t k = 1; k <= 64; ++k) {
        ASSERT_EQ(run_starts(x, k) != 0, k <= longest) << x << ", " << k;
        if (k <= longest) {
            const auto first = static_cast<std::uint32_t>(std::countr_zero(run_starts(x, k)));
            ASSERT_EQ(x & bits_from(first, k), bits_from(first, k)) << x << ", " << k;
            ASSERT_LT(slow_longest(first + k == 1 ? 0 : x & bits_from(0, first + k - 1)), k) << x << ", " << k;
        }
    }
}

TEST(word_runs, every_word_of_one_run) {
    expect_right(0);
    for (std::uint32_t first = 0; first < 64; ++first) {
        for (std::uint32_t count = 1; first + count <= 64; ++count) {
            expect_right(bits_from(first, count));
        }
    }
}

TEST(word_runs, random_words_of_every_density) {
    std::mt19937_64 random(5);
    for (int i = 0; i < 2000; ++i) {
        const std::uint64_t a = random();
        const std::uint64_t b = random();
        const std::uint64_t c = random();
        for (const std::uint64_t x : {a, a & b, a | b, a | b | c, a & b & c, ~(a & b & c & random())}) {
            expect_right(x);
        }
    }
}

TEST(word_runs, every_word_covers_a_run_once) {
    for (const std::uint32_t first : {0u, 1u, 63u, 64u, 100u}) {
        for (const std::uint32_t count : {0u, 1u, 2u, 63u, 64u, 65u, 129u, 200u}) {
            std::uint64_t words[8] = {};
            EXPECT_TRUE(every_word(first, count, [&](std::size_t w, std::uint64_t mask) {
                EXPECT_EQ(words[w] & mask, 0u);
                words[w] |= mask;
                return true;
            }));
            for (std::uint32_t i = 0; i < 512; ++i) {
                ASSERT_EQ((words[i / 64] & bit_of(i)) != 0, i >= first && i < first + count) << first << "+" << count;
            }
        }
    }
}

TEST(word_runs, lies_inside_does_not_overflow) {
    EXPECT_TRUE(lies_inside({segment_index{0}, 0}, 0));
    EXPECT_TRUE(lies_inside({segment_index{3}, 7}, 10));
    EXPECT_FALSE(lies_inside({segment_index{3}, 8}, 10));
    EXPECT_FALSE(lies_inside({segment_index{11}, 0}, 10));
    EXPECT_FALSE(lies_inside({segment_index{0xffffffff}, 2}, 10));
    EXPECT_FALSE(lies_inside({segment_index{2}, 0xffffffff}, 10));
}

}  // namespace
}  // namespace orchard::detail
