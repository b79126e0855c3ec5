// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Bits of words, against the obvious loops; with shifts by 0 and up to the width.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "device/group/bits.cuh"

namespace orchard::device::random_walk {
namespace {

template <class Word>
class Bits : public ::testing::Test {
protected:
    static constexpr std::uint32_t width = width_of<Word>;
    static bool at(Word bits, std::uint32_t i) { return (bits >> i & 1) != 0; }
    /// Words of all densities, all zeros and all ones among them.
    static std::vector<Word> words() {
        std::mt19937_64 random(1);
        std::vector<Word> w{0, static_cast<Word>(~Word{0}), 1, Word{1} << (width - 1)};
        for (int i = 0; i < 300; ++i) {
            const std::uint64_t a = random();
            const std::uint64_t b = i % 3 == 0 ? random() & random() : i % 3 == 1 ? random() | random() : random();
            w.push_back(static_cast<Word>(i % 2 == 0 ? a & b : a | b));
        }
        return w;
    }
};
using both_widths = ::testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(Bits, both_widths, );

TYPED_TEST(Bits, OnesOfEveryLengthAtEveryPlace) {
    for (std::uint32_t from = 0; from <= this->width; ++from) {
        for (std::uint32_t n = 0; from + n <= this->width; ++n) {
            if (from == this->width) {
                continue;
            }
            const TypeParam got = ones<TypeParam>(n, from);
            for (std::uint32_t i = 0; i < this->width; ++i) {
                ASSERT_EQ(this->at(got, i), i >= from && i < from + n) << n << " from " << from;
            }
        }
    }
}

TYPED_TEST(Bits, NthOneIsFoundForEveryRank) {
    for (const TypeParam bits : this->words()) {
        int rank = 0;
        for (std::uint32_t i = 0; i < this->width; ++i) {
            if (this->at(bits, i)) {
                ASSERT_EQ(nth_one(bits, rank), static_cast<int>(i)) << std::hex << bits;
                ++rank;
            }
        }
    }
}

/// In sparse words as well: a choice that goes up from a random bit would prefer ones behind long gaps.
TYPED_TEST(Bits, RandomOnesAreAllEquallyLikely) {
    constexpr int draws = 10'000;
    for (const TypeParam bits : {TypeParam{1}, TypeParam{0b110001}, static_cast<TypeParam>(~TypeParam{0}),
                                 static_cast<TypeParam>(TypeParam{3} << (this->width - 2) | 1)}) {
        std::mt19937 random(7);
        std::map<int, int> times;
        for (int i = 0; i < draws; ++i) {
            const int got = random_one(bits, static_cast<std::uint32_t>(random()));
            ASSERT_TRUE(this->at(bits, static_cast<std::uint32_t>(got)));
            ++times[got];
        }
        const double each = double{draws} / std::popcount(bits);
        EXPECT_EQ(times.size(), static_cast<std::size_t>(std::popcount(bits)));
        for (const auto& [bit, n] : times) {
            EXPECT_NEAR(n, each, 6 * std::sqrt(each)) << "bit " << bit;
        }
    }
}

TYPED_TEST(Bits, FirstOnesAreTheLowest) {
    for (const TypeParam bits : this->words()) {
        for (int n = 0; n <= simt::popcount(bits) + 1; ++n) {
            const TypeParam first = first_ones(bits, n);
            ASSERT_EQ(simt::popcount(first), std::min(n, simt::popcount(bits)));
            ASSERT_EQ(first & bits, first);
            ASSERT_TRUE(first == bits || first < lowest_one<TypeParam>(bits & ~first));
        }
    }
}

TYPED_TEST(Bits, OneFromAPlaceGoesUpAndThenAround) {
    for (const TypeParam bits : this->words()) {
        for (std::uint32_t start = 0; start < this->width; ++start) {
            TypeParam expected = 0;
            for (std::uint32_t i = 0; i < this->width && expected == 0; ++i) {
                const std::uint32_t place = (start + i) % this->width;
                expected = this->at(bits, place) ? ones<TypeParam>(1, place) : 0;
            }
            ASSERT_EQ(one_from(bits, start), expected);
        }
    }
}

TYPED_TEST(Bits, RunsAtBothEndsAndTheLongest) {
    for (const TypeParam bits : this->words()) {
        std::uint32_t bottom = 0;
        while (bottom < this->width && this->at(bits, bottom)) {
            ++bottom;
        }
        std::uint32_t top = 0;
        while (top < this->width && this->at(bits, this->width - 1 - top)) {
            ++top;
        }
        std::uint32_t longest = 0;
        for (std::uint32_t i = 0, run = 0; i < this->width; ++i) {
            run = this->at(bits, i) ? run + 1 : 0;
            longest = std::max(longest, run);
        }
        ASSERT_EQ(ones_at_bottom(bits), bottom);
        ASSERT_EQ(ones_at_top(bits), top);
        ASSERT_EQ(longest_run(bits), longest);
    }
}

TYPED_TEST(Bits, ARunIsFoundAtAnyBit) {
    for (const TypeParam bits : this->words()) {
        for (std::uint32_t n = 1; n <= this->width; ++n) {
            TypeParam starts = 0;
            for (std::uint32_t i = 0; i + n <= this->width; ++i) {
                starts |= (bits & ones<TypeParam>(n, i)) == ones<TypeParam>(n, i) ? TypeParam{1} << i : 0;
            }
            ASSERT_EQ(run_starts(bits, n), starts) << n << " in " << std::hex << bits;
            ASSERT_EQ(find_ones(bits, n), static_cast<std::uint32_t>(std::countr_zero(starts)));
        }
    }
}

}  // namespace
}  // namespace orchard::device::random_walk
