// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The formula of layouts, its inverse and the sizes of chunks, against the paper's address translator.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/layout/every_layout.hpp"
#include "uvm/geometry/layout.hpp"

namespace orchard::test {
namespace {

constexpr std::uint64_t formula_base = 0x7f00'0000'0000;

/// Offsets that matter: everywhere in the first tiles if they are small, around all borders, and far away.
std::vector<std::uint64_t> offsets_of(tile t) {
    const std::uint64_t g = bytes_of(t);
    std::vector<std::uint64_t> result;
    for (std::uint64_t o = 0; o < 300; ++o) {
        result.push_back(o);
    }
    for (const std::uint64_t row : {1ull, 2ull, 3ull, 31ull, 32ull, 33ull, 1000ull, (1ull << 31) + 5}) {
        for (const std::uint64_t near : {0ull, 1ull, 2ull, 5ull}) {
            result.push_back(row * g + near);
            result.push_back(row * g - 1 - near % g);
        }
    }
    return result;
}

TEST(Formula, IsThePapersTranslation) {
    for_every_tile_and_width([](tile t, std::uint32_t width) {
        const lane_map map = lane_map::rows(t, width);
        for (const std::uint64_t o : offsets_of(t)) {
            for (std::uint32_t l = 0; l < width; ++l) {
                const std::uint64_t expected = translate(formula_base + o, formula_base, width, l, t) - formula_base;
                ASSERT_EQ(interleaved_offset(t, width, l, o), expected) << "lane " << l << ", byte " << o;
                ASSERT_EQ(map.offset_of(l, o), expected);
            }
        }
    });
}

TEST(Formula, IsEquation2AsPrinted) {
    constexpr std::uint64_t kb64 = 64 * 1024;
    for (std::uint64_t of = 0; of < 10 * kb64; of += 997) {
        for (std::uint64_t lane = 0; lane < 32; ++lane) {
            const std::uint64_t ob = of / kb64;
            ASSERT_EQ(translate(formula_base + of, formula_base, 32, static_cast<std::uint32_t>(lane)),
                      formula_base + of + (ob * 32 + lane - ob) * kb64);
        }
    }
}

TEST(Formula, IsInvertedExactly) {
    for_every_tile_and_width([](tile t, std::uint32_t width) {
        const lane_map map = lane_map::rows(t, width);
        for (const std::uint64_t o : offsets_of(t)) {
            for (std::uint32_t l = 0; l < width; ++l) {
                ASSERT_EQ(map.byte_at(map.offset_of(l, o)), (lane_byte{l, o}));
            }
        }
    });
}

TEST(Formula, GivesEveryByteOfAChunkToOneLane) {
    for_every_tile_and_width([](tile t, std::uint32_t width) {
        if (t > tile::b64) {
            return;  // the same formula: the inverse above is exact for every tile
        }
        const lane_map map = lane_map::rows(t, width);
        const std::uint64_t lane_bytes = 3 * bytes_of(t);
        std::vector<int> owners(map.size(lane_bytes).bytes, 0);
        for (std::uint32_t l = 0; l < width; ++l) {
            for (std::uint64_t o = 0; o < lane_bytes; ++o) {
                ASSERT_LT(map.offset_of(l, o), owners.size());
                ++owners[map.offset_of(l, o)];
            }
        }
        if (width > 1) {  // one lane's chunk is rounded to 16 B
            ASSERT_EQ(owners, std::vector<int>(owners.size(), 1));
        }
    });
}

TEST(Formula, IsKnownWhenCompiled) {
    static_assert(interleaved_offset(tile::b4, 32, 5, 9) == (2 * 32 + 5) * 4 + 1);
    static_assert(translate(0x10000 + 70'000, 0x10000, 32, 3) == 0x10000 + (1 * 32 + 3) * 65'536 + 70'000 - 65'536);
    static_assert(lane_map::rows(tile::b16, 3).byte_at(16 * 4 + 1) == lane_byte{1, 17});
    static_assert(lane_map::with_tail_rows(tile::k64, 32, 84 << 10).tile_at(70 << 10) == tile::k16);
}

TEST(Tile, IsAPowerOfTwoFrom4BTo64KiB) {
    EXPECT_EQ(bytes_of(smallest_tile), 4u);
    EXPECT_EQ(bytes_of(largest_tile), big_page_bytes);
    EXPECT_EQ(bytes_of(tile::b512), 512u);
    EXPECT_EQ(bytes_of(tile::k1), 1024u);
    EXPECT_EQ(bytes_of(tile::k4), os_page_bytes);
    for (const std::uint64_t wrong :
         {0ull, 1ull, 2ull, 3ull, 5ull, 4095ull, 131'072ull, 1ull << 32, (1ull << 32) + 4}) {
        EXPECT_FALSE(is_tile(wrong)) << wrong;
    }
    for (std::uint64_t bytes = 4; bytes <= 65'536; bytes *= 2) {
        ASSERT_TRUE(is_tile(bytes));
        EXPECT_EQ(bytes_of(tile_of(bytes)), bytes);
    }
}

TEST(Tile, OthersAreRefusedInTheCheckedBuild) {
    if (!simt::checked) {
        GTEST_SKIP() << "needs a checked build";
    }
    EXPECT_THROW((void)tile_of(3), std::runtime_error);
    EXPECT_THROW((void)lane_map::rows(tile::b4, 0), std::runtime_error);
    EXPECT_THROW((void)lane_map::rows(tile::b4, 33), std::runtime_error);
}

TEST(Chunk, IsAsLargeAsItsLanesRoundedToTiles) {
    EXPECT_EQ(lane_map::rows(tile::b4, 32).size(1000), (chunk_size{32 * 1000, 128}));
    EXPECT_EQ(lane_map::rows(tile::b16, 32).size(1000), (chunk_size{32 * 1008, 512}));
    EXPECT_EQ(lane_map::rows(tile::k64, 32).size(65'537), (chunk_size{2 * segment_bytes, segment_bytes}));
    EXPECT_EQ(lane_map::rows(tile::k64, 8).size(1), (chunk_size{8 * big_page_bytes, 8 * big_page_bytes}));
    EXPECT_EQ(lane_map::rows(tile::b4, 32).size(0), (chunk_size{0, 128}));
}

TEST(Chunk, IsAlignedToARowOnlyWhereALanePointerCanServeIt) {
    EXPECT_EQ(lane_map::rows(tile::k4, 3).size(5000), (chunk_size{3 * 8192, 4096}));
    EXPECT_EQ(lane_map::rows(tile::b4, 2).size(4).alignment, 16u) << "at least what malloc aligns to";
    EXPECT_EQ(lane_map::rows(tile::b8, 31).size(4).alignment, 16u);
}

TEST(Chunk, OfOneLaneIsLinear) {
    for (const lane_map map :
         {lane_map::linear(), lane_map::rows(tile::b4, 1), lane_map::with_tail_rows(tile::k64, 1, 100'000)}) {
        EXPECT_TRUE(map.pointable());
        EXPECT_EQ(map.size(100'000), (chunk_size{100'000, 16}));
        EXPECT_EQ(map.size(100'001), (chunk_size{100'016, 16}));
        for (std::uint64_t o = 0; o < 100'000; o += 333) {
            ASSERT_EQ(map.offset_of(0, o), o);
            ASSERT_EQ(map.byte_at(o), (lane_byte{0, o}));
        }
    }
}

}  // namespace
}  // namespace orchard::test
