// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The arithmetic of `lane_ptr` against a model that knows each element by its index. Addresses only: no memory.

#include "device/arrays/lane_ptr.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>
#include <type_traits>

#include "tests/layout/every_layout.hpp"

namespace orchard::test {
namespace {

constexpr std::uint64_t base = 0x7f12'3460'0000;  // a multiple of 2 MiB, the largest row

struct pair {  // aligned to less than its size
    std::uint32_t first, second;
};
using sixteen = std::array<std::uint64_t, 2>;

/// The lane at `position` of a chunk at `base`: where each element of its array is, by the paper's translation.
template <class T>
struct model {
    tile t;
    std::uint32_t log_width;
    std::uint32_t position;

    [[nodiscard]] std::uint64_t address(std::int64_t index) const {
        // Elements before the chunk's beginning follow the same rule: they count as those of an earlier chunk.
        constexpr std::int64_t earlier = std::int64_t{1} << 24;
        const std::uint32_t width = 1u << log_width;
        const std::uint64_t chunk = base - width * (earlier * sizeof(T));
        const std::uint64_t offset = static_cast<std::uint64_t>(index + earlier) * sizeof(T);
        return translate(chunk + offset, chunk, width, position, t);
    }
    [[nodiscard]] lane_ptr<T> pointer(std::int64_t index) const {
        return lane_ptr<T>::from_address(reinterpret_cast<T*>(address(index)), t, log_width);
    }
};

template <class T>
std::uint64_t number(T* p) {
    return reinterpret_cast<std::uint64_t>(p);
}

/// `act(model)` for all tiles that hold a `T`, all widths, and the first, a middle and the last lane.
template <class T, class Act>
void for_every_model(Act act) {
    for_every_pointable([&](tile t, std::uint32_t log_width) {
        if (bytes_of(t) < sizeof(T)) {
            return;
        }
        const std::uint32_t width = 1u << log_width;
        for (const std::uint32_t position : {0u, width / 2, width - 1}) {
            act(model<T>{t, log_width, position});
            if (testing::Test::HasFatalFailure()) {
                return;
            }
        }
    });
}

template <class T>
class LanePtrOf : public testing::Test {};
using elements = testing::Types<char, std::uint16_t, float, pair, double, sixteen>;
TYPED_TEST_SUITE(LanePtrOf, elements);

TYPED_TEST(LanePtrOf, KnowsWhatItWasMadeOf) {
    using T = TypeParam;
    for_every_model<T>([](const model<T>& m) {
        const lane_ptr<T> p = m.pointer(5);
        ASSERT_EQ(number(p.address()), m.address(5));
        ASSERT_EQ(p.tile_size(), m.t);
        ASSERT_EQ(p.log_width(), m.log_width);
        ASSERT_EQ(p.position(), m.position);
        ASSERT_TRUE(p);
    });
}

TYPED_TEST(LanePtrOf, StepsOverTheBordersOfTilesBothWays) {
    using T = TypeParam;
    for_every_model<T>([](const model<T>& m) {
        const auto in_tile = static_cast<std::int64_t>(bytes_of(m.t) / sizeof(T));
        for (const std::int64_t border : {std::int64_t{0}, in_tile, 7 * in_tile, 32 * in_tile}) {
            lane_ptr<T> p = m.pointer(border - 3);
            for (std::int64_t i = border - 3; i < border + 3; ++i) {
                ASSERT_EQ(p, m.pointer(i)) << "forward to " << i;
                ASSERT_EQ(p++, m.pointer(i));
            }
            for (std::int64_t i = border + 3; i > border - 3; --i) {
                ASSERT_EQ(p, m.pointer(i)) << "back to " << i;
                ASSERT_EQ(p--, m.pointer(i));
            }
            ASSERT_EQ(++p, m.pointer(border - 2));
            ASSERT_EQ(--p, m.pointer(border - 3));
        }
    });
}

/// One step of a random walk in every way that leads to the same place.
template <class T>
void expect_moves(const model<T>& m, std::int64_t from, std::int64_t to) {
    const lane_ptr<T> p = m.pointer(from);
    const lane_ptr<T> expected = m.pointer(to);
    const std::int64_t n = to - from;
    const auto small = static_cast<std::int32_t>(n);
    ASSERT_EQ(p + n, expected) << from << " + " << n;
    ASSERT_EQ(n + p, expected);
    ASSERT_EQ(p - -n, expected);
    ASSERT_EQ(p + small, expected) << "in 32 bits";
    ASSERT_EQ(p - -small, expected);
    lane_ptr<T> q = p;
    ASSERT_EQ(q += n, expected);
    ASSERT_EQ(q -= small, p);
    ASSERT_EQ(number(&p[n]), m.address(to));
    ASSERT_EQ(number(&p[small]), m.address(to));
    if (n >= 0) {
        ASSERT_EQ(p + static_cast<std::uint32_t>(n), expected);
        ASSERT_EQ(p + static_cast<std::uint64_t>(n), expected);
        ASSERT_EQ(expected - static_cast<std::uint32_t>(n), p) << "what is unsigned has an opposite too";
        ASSERT_EQ(number(&p[static_cast<std::uint32_t>(n)]), m.address(to));
    }
    ASSERT_EQ(expected - p, n);
    ASSERT_EQ(p - expected, -n);
    ASSERT_EQ(p < expected, from < to);
    ASSERT_EQ(p > expected, from > to);
    ASSERT_EQ(p <= expected, from <= to);
    ASSERT_EQ(p >= expected, from >= to);
    ASSERT_EQ(p == expected, from == to);
}

TYPED_TEST(LanePtrOf, WalksAtRandomAsTheModel) {
    using T = TypeParam;
    std::mt19937_64 random(20261121);
    for_every_model<T>([&](const model<T>& m) {
        const auto in_tile = static_cast<std::int64_t>(bytes_of(m.t) / sizeof(T));
        std::int64_t at = 0;
        for (int step = 0; step < 100; ++step) {
            // Within a tile, over a few rows, over many.
            const std::int64_t reach = step % 3 == 0 ? in_tile : step % 3 == 1 ? 5 * in_tile : 1'000'000;
            const std::int64_t to = std::uniform_int_distribution<std::int64_t>(
                std::max<std::int64_t>(at - reach, 0), std::min<std::int64_t>(at + reach, 5'000'000))(random);
            ASSERT_NO_FATAL_FAILURE(expect_moves(m, at, to));
            at = to;
        }
    });
}

TEST(LanePtr, TakesIndicesAtTheEndsOfTheirTypes) {
    // Lanes of 2^35 bytes: offsets of more than 32 bits do not wrap.
    const auto p = lane_ptr<char>::from_address(reinterpret_cast<char*>(base + 3 * 16 + 9), tile::b16, 5);
    const auto expect = [&](auto n) {
        const std::uint64_t chunk = base - (std::uint64_t{32} << 33);
        const std::uint64_t offset = (std::uint64_t{1} << 33) + 9 + static_cast<std::uint64_t>(n);
        EXPECT_EQ(number(&p[n]), translate(chunk + offset, chunk, 32, 3, tile::b16)) << n;
        EXPECT_EQ((p + n) - p, static_cast<std::int64_t>(n));
    };
    expect(std::numeric_limits<std::int32_t>::max());
    expect(std::numeric_limits<std::int32_t>::min());
    expect(std::numeric_limits<std::uint32_t>::max());
    expect(std::int64_t{1} << 33);
    expect(std::numeric_limits<std::int16_t>::min());
    expect(std::uint8_t{255});
    EXPECT_EQ(p - std::numeric_limits<std::int32_t>::min(), p + (std::int64_t{1} << 31));
}

TEST(LanePtr, OfALinearArrayIsThePlainPointer) {
    std::array<pair, 40> array{};
    const lane_ptr<pair> p = lane_ptr<pair>::linear(array.data() + 20);
    EXPECT_EQ(p.log_width(), 0u);
    EXPECT_EQ(p.position(), 0u);
    for (int n = -20; n < 20; ++n) {
        EXPECT_EQ(&p[n], array.data() + 20 + n);
        EXPECT_EQ((p + n).address(), array.data() + 20 + n);
        EXPECT_EQ((p + n) - p, n);
    }
    p->second = 5;
    (*p).first = 4;
    EXPECT_EQ(array[20].first + array[20].second, 9u);
}

TEST(LanePtr, OfALinearArrayNeedsNoAlignmentToItsSize) {
    alignas(64) std::array<std::uint32_t, 65> words{};
    struct wide {
        std::array<std::uint32_t, 8> words;
    };
    wide* const first = reinterpret_cast<wide*>(words.data() + 1);
    const auto p = lane_ptr<wide>::linear(first);
    for (int n = 0; n < 8; ++n) {
        EXPECT_EQ(&p[n], first + n);
        EXPECT_EQ((p + n).address(), first + n);
        EXPECT_EQ((p + n) - p, n);
    }
}

TEST(LanePtr, OfNothingIsNull) {
    const lane_ptr<int> null;
    EXPECT_FALSE(null);
    EXPECT_EQ(null, nullptr);
    EXPECT_EQ(null.address(), nullptr);
    EXPECT_EQ(lane_ptr<int>::from_address(nullptr, tile::k64, 5), null);
    EXPECT_EQ(lane_ptr<int>::linear(nullptr), nullptr);
    int here = 0;
    EXPECT_NE(lane_ptr<int>::linear(&here), nullptr);
}

TEST(LanePtr, BecomesOneToConst) {
    const auto p = lane_ptr<float>::from_address(reinterpret_cast<float*>(base + 4), tile::b4, 3);
    const lane_ptr<const float> q = p;
    EXPECT_EQ(q.bits(), p.bits());
    EXPECT_EQ(p, q);
    EXPECT_LT(p, q + 1);
    static_assert(!std::is_convertible_v<lane_ptr<const float>, lane_ptr<float>>);
    static_assert(!std::is_convertible_v<lane_ptr<float>, lane_ptr<int>>);
}

TEST(LanePtr, CanBeReadAsAnotherType) {
    const model<float> m{tile::b16, 5, 7};
    const lane_ptr<sixteen> wide = m.pointer(8).as<sixteen>();
    EXPECT_EQ(number((wide + 3).address()), m.address(8 + 3 * 4));
    EXPECT_EQ((wide + 3).as<float>(), m.pointer(20));
}

/// A list whose elements lie in interleaved chunks: a type may hold pointers to itself.
struct list_node {
    lane_ptr<list_node> next;
    std::uint64_t value;
};

TEST(LanePtr, IsAnIteratorOf8Bytes) {
    static_assert(sizeof(lane_ptr<list_node>) == 8 && sizeof(list_node) == 16);
    static_assert(std::is_trivially_copyable_v<lane_ptr<list_node>>);
    static_assert(std::random_access_iterator<lane_ptr<float>> && std::random_access_iterator<lane_ptr<const float>>);
    list_node nodes[2] = {{nullptr, 1}, {nullptr, 2}};
    nodes[0].next = lane_ptr<list_node>::linear(&nodes[1]);
    EXPECT_EQ(nodes[0].next->value, 2u);
}

TEST(LanePtr, HasTheBitsAsDrawn) {
    const auto p = lane_ptr<float>::from_address(reinterpret_cast<float*>(base), tile::b16, 5);
    EXPECT_EQ(p.bits(), base | std::uint64_t{4} << 56 | std::uint64_t{5} << 61);
    // Addresses under five-level page tables have 56 bits.
    constexpr std::uint64_t highest = (std::uint64_t{1} << 56) - 64;
    EXPECT_EQ(number(lane_ptr<float>::from_address(reinterpret_cast<float*>(highest), tile::k64, 5).address()),
              highest);
}

TEST(LanePtr, RefusesInTheCheckedBuildWhatItCannotServe) {
    if (!simt::checked) {
        GTEST_SKIP() << "needs a checked build";
    }
    auto* const memory = reinterpret_cast<sixteen*>(base);
    EXPECT_THROW((void)lane_ptr<sixteen>::from_address(memory, tile::b4, 5), std::runtime_error) << "16 B in 4 B tiles";
    EXPECT_THROW((void)lane_ptr<sixteen>::from_address(memory, tile::b8, 1), std::runtime_error);
    EXPECT_NO_THROW((void)lane_ptr<sixteen>::from_address(memory, tile::b16, 5));
    EXPECT_NO_THROW((void)lane_ptr<sixteen>::from_address(memory, tile::b4, 0)) << "linear";
    EXPECT_THROW((void)lane_ptr<sixteen>::from_address(memory, tile::b16, 6), std::runtime_error);
    EXPECT_THROW((void)lane_ptr<sixteen>::from_address(memory, tile{17}, 5), std::runtime_error);
    EXPECT_THROW((void)lane_ptr<char>::from_address(reinterpret_cast<char*>(1ull << 56), tile::b4, 5),
                 std::runtime_error);
    EXPECT_THROW((void)lane_ptr<sixteen>::from_address(reinterpret_cast<sixteen*>(base + 8), tile::b64, 5),
                 std::runtime_error);
}

}  // namespace
}  // namespace orchard::test
