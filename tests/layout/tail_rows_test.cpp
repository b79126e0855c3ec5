// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Tail rows against the paper's description: "Any remaining portions that do not meet this size [64 KB] are further
/// subdivided into segments of 2^i x 4 KB" (section V-A).

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/layout/every_layout.hpp"
#include "uvm/geometry/layout.hpp"

namespace orchard::test {
namespace {

/// One row: its tile, and the byte of every lane with which it begins.
struct row {
    std::uint64_t tile_bytes;
    std::uint64_t begin;
};

/// The rows as the paper describes them, largest tiles first.
std::vector<row> rows_of(std::uint64_t tile_bytes, std::uint64_t lane_bytes) {
    std::vector<row> rows;
    std::uint64_t done = 0;
    while (lane_bytes - done >= tile_bytes) {
        rows.push_back({tile_bytes, done});
        done += tile_bytes;
    }
    std::uint64_t left = (lane_bytes - done + os_page_bytes - 1) / os_page_bytes * os_page_bytes;
    for (std::uint64_t g = tile_bytes; g >= os_page_bytes; g /= 2) {
        if (left >= g) {
            rows.push_back({g, done});
            done += g;
            left -= g;
        }
    }
    return rows;
}

/// Compares every page of a chunk with `rows_of`, at the first and last bytes of the page, and at one within.
void expect_rows(tile t, std::uint32_t width, std::uint64_t lane_bytes) {
    SCOPED_TRACE(testing::Message() << bytes_of(t) << " B tiles, " << width << " lanes of " << lane_bytes << " B");
    const lane_map map = lane_map::with_tail_rows(t, width, lane_bytes);
    std::uint64_t row_begin = 0;  // in the chunk
    for (const row& r : rows_of(bytes_of(t), lane_bytes)) {
        for (std::uint32_t l = 0; l < width; ++l) {
            for (std::uint64_t page = 0; page < r.tile_bytes; page += os_page_bytes) {
                for (const std::uint64_t byte : {page, page + 1234, page + os_page_bytes - 1}) {
                    const std::uint64_t expected = row_begin + l * r.tile_bytes + byte;
                    ASSERT_EQ(map.offset_of(l, r.begin + byte), expected) << "lane " << l << ", row at " << r.begin;
                    ASSERT_EQ(map.byte_at(expected), (lane_byte{l, r.begin + byte}));
                }
            }
            ASSERT_TRUE(width == 1 || bytes_of(map.tile_at(r.begin)) == r.tile_bytes);
        }
        row_begin += r.tile_bytes * width;
    }
    ASSERT_TRUE(width == 1 || map.size(lane_bytes).bytes == row_begin) << map.size(lane_bytes).bytes;
}

TEST(TailRows, AreThePapersForEveryNumberOfPages) {
    for (const std::uint32_t width : {1u, 2u, 3u, 7u, 31u, 32u}) {
        for (std::uint64_t pages = 1; pages <= 50; ++pages) {
            ASSERT_NO_FATAL_FAILURE(expect_rows(tile::k64, width, pages * os_page_bytes));
        }
    }
}

TEST(TailRows, FollowSmallerTilesTooButAreNeverUnder4KiB) {
    for (const tile t : {tile::k4, tile::k8, tile::k16, tile::k32}) {
        for (std::uint64_t pages = 1; pages <= 20; ++pages) {
            ASSERT_NO_FATAL_FAILURE(expect_rows(t, 5, pages * os_page_bytes));
        }
    }
    for (const tile t : {tile::b4, tile::k2, tile::k4}) {
        EXPECT_EQ(lane_map::with_tail_rows(t, 32, 12'345), lane_map::rows(t, 32));
    }
}

TEST(TailRows, RoundLanesToPages) {
    for (const std::uint64_t bytes : {1ull, 4095ull, 4097ull, 65'535ull, 65'537ull, 200'001ull}) {
        ASSERT_NO_FATAL_FAILURE(expect_rows(tile::k64, 32, bytes));
        const lane_map map = lane_map::with_tail_rows(tile::k64, 32, bytes);
        EXPECT_EQ(map.size(bytes).bytes, (bytes + 4095) / 4096 * 4096 * 32);
    }
}

TEST(TailRows, AsDrawn) {
    // 84 KiB a lane: a row of 64 KiB tiles, one of 16 KiB, one of 4 KiB.
    constexpr std::uint64_t kib = 1024;
    constexpr lane_map map = lane_map::with_tail_rows(tile::k64, 4, 84 * kib);
    EXPECT_EQ(map.offset_of(3, 0), 192 * kib);
    EXPECT_EQ(map.offset_of(0, 64 * kib), 256 * kib);
    EXPECT_EQ(map.offset_of(3, 79 * kib), (256 + 3 * 16 + 15) * kib);
    EXPECT_EQ(map.offset_of(2, 80 * kib), (256 + 64 + 2 * 4) * kib);
    EXPECT_EQ(map.size(84 * kib), (chunk_size{4 * 84 * kib, 64 * kib}));
    EXPECT_FALSE(map.pointable());
}

TEST(TailRows, AreLeftOutWhereOneTileServes) {
    for (std::uint64_t pages = 1; pages <= 16; pages *= 2) {
        const std::uint64_t bytes = pages * os_page_bytes;
        EXPECT_EQ(lane_map::with_tail_rows(tile::k64, 32, bytes), lane_map::rows(tile_of(bytes), 32));
    }
    EXPECT_EQ(lane_map::with_tail_rows(tile::k64, 32, 10 * big_page_bytes), lane_map::rows(tile::k64, 32));
    EXPECT_NE(lane_map::with_tail_rows(tile::k64, 32, 10 * big_page_bytes + 1).pages, 0u);
}

TEST(TailRows, OfLargeLanes) {
    constexpr std::uint64_t bytes = (std::uint64_t{1} << 43) - 3 * os_page_bytes;
    constexpr lane_map map = lane_map::with_tail_rows(tile::k64, 32, bytes);
    EXPECT_EQ(map.tile_at(0), tile::k64);
    EXPECT_EQ(map.tile_at(bytes - 1), tile::k4);
    EXPECT_EQ(map.byte_at(map.offset_of(31, bytes - 1)), (lane_byte{31, bytes - 1}));
    EXPECT_EQ(map.offset_of(31, bytes - 1), 32 * bytes - 1);
}

}  // namespace
}  // namespace orchard::test
