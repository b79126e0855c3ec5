// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `lane_array` against the map of its chunk: places, pieces, iteration, pointers. Most of it on addresses only.

#include "device/arrays/lane_array.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "tests/layout/every_layout.hpp"

namespace orchard::test {
namespace {

constexpr std::uint64_t base = 0x7f12'3460'0000;  // a multiple of 2 MiB, the largest row
void* const chunk = reinterpret_cast<void*>(base);

using sixteen = std::array<std::uint64_t, 2>;

template <class T>
std::uint64_t number(T* p) {
    return reinterpret_cast<std::uint64_t>(p);
}

/// Checks that every element lies at the map's address, by indices of every type, and that pieces are consecutive and
/// hold the right elements.
template <class T>
void expect_follows(const lane_map& map, std::uint32_t position, std::uint64_t size) {
    SCOPED_TRACE(testing::Message() << "position " << position << ", " << size << " elements of " << sizeof(T) << " B");
    const lane_array<T> a(chunk, map, position, size);
    ASSERT_EQ(a.size(), size);
    ASSERT_EQ(a.empty(), size == 0);
    ASSERT_EQ(a.map(), map);
    ASSERT_EQ(a.position(), position);
    for (std::uint64_t i = 0; i < size; ++i) {
        const std::uint64_t expected = base + map.offset_of(position, i * sizeof(T));
        ASSERT_EQ(number(&a[i]), expected) << i;
        ASSERT_EQ(number(&a[static_cast<std::int32_t>(i)]), expected) << i;
        ASSERT_EQ(number(&a[static_cast<std::uint32_t>(i)]), expected) << i;
        ASSERT_EQ(number(&a[static_cast<std::int64_t>(i)]), expected) << i;
    }
    std::uint64_t next = 0;
    a.for_each_tile([&](const tile_span<T>& span) {
        ASSERT_EQ(span.first, next);
        ASSERT_GT(span.size(), 0u);
        for (std::uint64_t k = 0; k < span.count; ++k) {
            ASSERT_EQ(&span[k], &a[next + k]);
        }
        ASSERT_EQ(span.end(), span.begin() + span.count);
        next += span.count;
        if (next < size && map.width > 1) {
            ASSERT_NE(&a[next], span.end()) << "a tile goes on after its piece";
        }
    });
    ASSERT_EQ(next, size);
}

/// Tail rows are moved, and nothing else; by any distance that the heap of the greatest range may have.
TEST(LaneArray, TailRowsMayLieElsewhere) {
    constexpr std::uint64_t lane_bytes = 84 << 10;
    const lane_map map = lane_map::with_tail_rows(tile::k64, 32, lane_bytes);
    ASSERT_EQ(map.pages, 21u);
    ASSERT_EQ(map.bytes_before_tail_rows(), segment_bytes);
    for (const std::int32_t shift : {0, 1, -1, 31, -33, 0xffff, 0x10000, -0x10000, -0x10001, 0xffffff, -0xffffff}) {
        const lane_array<float> a(chunk, map, 7, lane_bytes / sizeof(float), shift);
        EXPECT_EQ(a.chunk(), chunk);
        EXPECT_EQ(a.map(), map);
        EXPECT_EQ(a.position(), 7u);
        EXPECT_EQ(a.shift(), shift);
        EXPECT_FALSE(static_cast<bool>(a.data()));
        const std::uint64_t moved = static_cast<std::uint64_t>(std::int64_t{shift}) * big_page_bytes;
        const lane_array<const float> same = a;
        for (std::uint32_t i = 0; i < a.size(); i += 61) {
            const std::uint64_t offset = i * sizeof(float);
            const std::uint64_t expected = base + map.offset_of(7, offset) + (offset < 64 << 10 ? 0 : moved);
            ASSERT_EQ(number(&a[i]), expected) << i << ", shift " << shift;
            ASSERT_EQ(number(&same[std::uint64_t{i}]), expected) << i << ", shift " << shift;
            const tile_span<float> span = a.span_at(i);
            ASSERT_EQ(number(span.data), expected);
            ASSERT_EQ(span.count,
                      (bytes_of(map.tile_at(offset)) - offset % bytes_of(map.tile_at(offset))) / sizeof(float));
        }
    }
}

TEST(LaneArray, FollowsItsMapForEveryTileAndWidth) {
    for_every_tile_and_width([](tile t, std::uint32_t width) {
        const std::uint64_t floats = std::min<std::uint64_t>(3 * bytes_of(t) / sizeof(float) + 1, 1000);
        for (const std::uint32_t position : {0u, width / 2, width - 1}) {
            ASSERT_NO_FATAL_FAILURE(expect_follows<float>(lane_map::rows(t, width), position, floats));
        }
    });
}

TEST(LaneArray, FollowsTailRows) {
    for (const std::uint32_t width : {2u, 3u, 32u}) {
        for (const std::uint64_t pages : {3u, 7u, 17u, 21u, 31u, 37u}) {
            const lane_map map = lane_map::with_tail_rows(tile::k64, width, pages * os_page_bytes);
            for (const std::uint32_t position : {0u, width - 1}) {
                ASSERT_NO_FATAL_FAILURE(expect_follows<sixteen>(map, position, pages * os_page_bytes / 16));
                ASSERT_NO_FATAL_FAILURE(expect_follows<double>(map, position, pages * os_page_bytes / 8 - 100));
            }
        }
    }
}

TEST(LaneArray, HasPiecesOfWholeTiles) {
    std::vector<std::uint64_t> counts;
    const auto count = [&](const tile_span<float>& span) { counts.push_back(span.count); };
    lane_array<float>(chunk, lane_map::rows(tile::b16, 32), 3, 10).for_each_tile(count);
    EXPECT_EQ(counts, (std::vector<std::uint64_t>{4, 4, 2}));
    counts.clear();
    const lane_map tail = lane_map::with_tail_rows(tile::k64, 32, 84 << 10);
    lane_array<float>(chunk, tail, 3, 21'000).for_each_tile(count);
    EXPECT_EQ(counts, (std::vector<std::uint64_t>{16'384, 4096, 520}));
    counts.clear();
    lane_array<float>::linear(reinterpret_cast<float*>(base), 1'000'000).for_each_tile(count);
    EXPECT_EQ(counts, (std::vector<std::uint64_t>{1'000'000})) << "a linear array is one piece";
    counts.clear();
    lane_array<float>().for_each_tile(count);
    EXPECT_TRUE(counts.empty());
    const tile_span<float> rest = lane_array<float>(chunk, lane_map::rows(tile::b16, 32), 3, 10).span_at(5);
    EXPECT_EQ(rest.count, 3u);
    EXPECT_EQ(rest.first, 5u);
}

TEST(LaneArray, HasAPointerWhereThePositionIsAFieldOfTheAddress) {
    for_every_tile_and_width([](tile t, std::uint32_t width) {
        const lane_array<float> a(chunk, lane_map::rows(t, width), width - 1, 100);
        const lane_ptr<float> p = a.data();
        const bool power_of_two = (width & (width - 1)) == 0;
        ASSERT_EQ(static_cast<bool>(p), power_of_two);
        for (std::uint64_t i = 0; i < a.size() && power_of_two; ++i) {
            ASSERT_EQ(&p[i], &a[i]);
        }
    });
}

TEST(LaneArray, HasNoPointerWithTailRowsOrInAChunkThatIsNotAligned) {
    const lane_map tail = lane_map::with_tail_rows(tile::k64, 32, 84 << 10);
    EXPECT_EQ(lane_array<float>(chunk, tail, 0, 100).data(), nullptr);
    void* const shifted = reinterpret_cast<void*>(base + 16);
    EXPECT_EQ(lane_array<float>(shifted, lane_map::rows(tile::b16, 32), 0, 100).data(), nullptr);
    EXPECT_NE(lane_array<float>(shifted, lane_map::rows(tile::b16, 1), 0, 100).data(), nullptr) << "linear";
    const lane_map one_row = lane_map::with_tail_rows(tile::k64, 32, 16 << 10);
    EXPECT_NE(lane_array<float>(chunk, one_row, 0, 4096).data(), nullptr);
    EXPECT_EQ(lane_array<float>().data(), nullptr);
}

TEST(LaneArray, GoesThroughItsElements) {
    std::vector<std::uint32_t> memory(32 * 20);
    const lane_map map = lane_map::rows(tile::b8, 5);
    const lane_array<std::uint32_t> a(memory.data(), map, 2, 19);
    std::iota(a.begin(), a.end(), 100u);
    std::uint32_t next = 100;
    for (const std::uint32_t x : lane_array<const std::uint32_t>(a)) {
        EXPECT_EQ(x, next++);
    }
    EXPECT_EQ(next, 119u);
    EXPECT_EQ(memory[map.offset_of(2, 18 * 4) / 4], 118u);
    EXPECT_EQ(std::accumulate(memory.begin(), memory.end(), 0u), 19u * 109) << "no other lane's bytes were written";
    static_assert(std::forward_iterator<lane_array<float>::iterator>);
}

TEST(LaneArray, OfALinearArrayIsThatArray) {
    std::array<double, 50> array{};
    const auto a = lane_array<double>::linear(array.data(), array.size());
    for (std::size_t i = 0; i < array.size(); ++i) {
        ASSERT_EQ(&a[i], &array[i]);
    }
    EXPECT_EQ(a.data().address(), array.data());
    const auto c = lane_array<const double>::linear(array.data(), array.size());
    EXPECT_EQ(&c[7], &array[7]);
}

TEST(LaneArray, TakesIndicesBeyond32Bits) {
    constexpr std::uint64_t pages = (std::uint64_t{9} << 30) / os_page_bytes + 5;
    for (const lane_map map : {lane_map::rows(tile::b4, 32), lane_map::rows(tile::k64, 7), lane_map::linear(),
                               lane_map::with_tail_rows(tile::k64, 32, pages * os_page_bytes)}) {
        const lane_array<std::uint8_t> a(chunk, map, map.width - 1, pages * os_page_bytes);
        const auto expect = [&](auto i) {
            EXPECT_EQ(number(&a[i]), base + map.offset_of(map.width - 1, static_cast<std::uint64_t>(i))) << i;
        };
        expect(std::numeric_limits<std::int32_t>::max());
        expect(std::numeric_limits<std::uint32_t>::max());
        expect(std::numeric_limits<std::uint32_t>::max() - 1);
        expect(std::uint64_t{1} << 32);
        expect(static_cast<std::int64_t>(a.size() - 1));
    }
}

TEST(LaneArray, IsSmallAndCopiedAsBytes) {
    static_assert(sizeof(lane_array<double>) == 24 && std::is_trivially_copyable_v<lane_array<double>>);
    static_assert(std::is_convertible_v<lane_array<double>, lane_array<const double>>);
    static_assert(!std::is_convertible_v<lane_array<const double>, lane_array<double>>);
    static_assert(!std::is_convertible_v<lane_array<double>, lane_array<float>>);
}

TEST(LaneArray, RefusesInTheCheckedBuildWhatIsOutOfBounds) {
    if (!simt::checked) {
        GTEST_SKIP() << "needs a checked build";
    }
    const lane_map map = lane_map::rows(tile::b8, 5);
    const lane_array<float> a(chunk, map, 2, 19);
    EXPECT_NO_THROW((void)&a[18]);
    EXPECT_THROW((void)&a[19], std::runtime_error);
    EXPECT_THROW((void)&a[-1], std::runtime_error);
    EXPECT_THROW((void)a.span_at(19), std::runtime_error);
    EXPECT_THROW((lane_array<float>(chunk, map, 5, 19)), std::runtime_error);
    EXPECT_THROW((lane_array<sixteen>(chunk, map, 0, 19)), std::runtime_error) << "16 B in 8 B tiles";
    const lane_map tail = lane_map::with_tail_rows(tile::k64, 32, 84 << 10);
    EXPECT_NO_THROW((lane_array<float>(chunk, tail, 0, 21 << 10)));
    EXPECT_THROW((lane_array<float>(chunk, tail, 0, (21 << 10) + 1)), std::runtime_error);
}

// More elements in full rows than a 32-bit index can name: none of those that it names lies in a tail row.
TEST(LaneArray, TheGreatestIndexOf32BitsIsInTheFullRowsThatItIsIn) {
    constexpr auto pages = static_cast<std::uint32_t>(((std::uint64_t{4} << 30) + os_page_bytes) / os_page_bytes);
    constexpr std::uint32_t greatest = std::numeric_limits<std::uint32_t>::max();
    for (const std::int32_t shift : {0, 77, -77}) {
        const lane_array<std::uint8_t> a(chunk, lane_map{pages, tile::k64, 2, 0}, 1,
                                         std::uint64_t{pages} * os_page_bytes, shift);
        EXPECT_EQ(&a[greatest], &a[std::uint64_t{greatest}]) << shift;
        EXPECT_EQ(&a[greatest - 1] + 1, &a[greatest]) << shift;
    }
}

}  // namespace
}  // namespace orchard::test
