// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Rows of lanes of different lengths, against their description: which lanes share a row, and that each page of each
// lane has a place of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "uvm/geometry/ragged_rows.hpp"

namespace orchard::test {
namespace {

/// Returns the table for lanes of `pages` OS pages, written down from its description, and the pages before the common
/// rows in `*before`.
row_table table_of(const ragged_rows& rows, const std::vector<std::uint32_t>& pages, std::int32_t* before) {
    row_table table{};
    std::int32_t at = 0;
    const auto add = [&](row_group& group, std::uint32_t log_part, auto has_part) {
        group.first = at;
        for (std::uint32_t l = 0; l < pages.size(); ++l) {
            if (has_part(pages[l] - rows.common_pages)) {
                group.positions |= 1u << l;
                at += 1 << log_part;
            }
        }
    };
    for (std::uint32_t n = 0; n < row_table::max_steps; ++n) {
        add(table.steps[n], rows.log_step, [&](std::uint32_t behind) { return (behind >> rows.log_step) > n; });
    }
    for (std::uint32_t i = rows.log_step; i-- > 0;) {
        add(table.rests[i], i, [&](std::uint32_t behind) { return (behind >> i & 1) != 0; });
    }
    const std::int32_t tile = 1 << rows.log_tile;
    *before = (at + 1 + tile - 1) / tile * tile;
    for (row_group& g : table.steps) {
        g.first -= *before;
    }
    for (row_group& g : table.rests) {
        g.first -= *before;
    }
    for (std::uint32_t l = 0; l < pages.size(); ++l) {
        table.pages[l] = pages[l] - rows.common_pages;
    }
    return table;
}

/// Checks all pages of a chunk: places differ, lie before the table, and tiles are whole and aligned.
void expect_rows(std::uint32_t log_asked, const std::vector<std::uint32_t>& pages) {
    const auto [least, most] = std::minmax_element(pages.begin(), pages.end());
    const ragged_rows rows = ragged_rows::of(log_asked, *least, *most);
    ASSERT_LE(rows.log_tile, log_asked);
    ASSERT_LE(rows.common_pages, *least);
    ASSERT_LT(*least - rows.common_pages, 1u << rows.log_tile) << "all that all lanes have is common";
    ASSERT_LT((*most - rows.common_pages) >> rows.log_step, row_table::max_steps);
    std::int32_t before = 0;
    const row_table table = table_of(rows, pages, &before);
    std::set<std::int32_t> places;
    for (std::uint32_t l = 0; l < pages.size(); ++l) {
        std::int32_t last = 0;
        for (std::uint32_t page = 0; page < table.pages[l]; ++page) {
            const std::int32_t place = rows.place_of(table, l, page);
            ASSERT_GE(place, -before);
            ASSERT_LT(place, -1) << "the last page before the common rows is the table's";
            ASSERT_TRUE(places.insert(place).second) << "lane " << l << ", page " << page;
            const std::uint32_t log = rows.log_tile_of(table, l, page);
            const std::uint32_t in_tile = page & ((1u << log) - 1);
            if (in_tile == 0) {
                ASSERT_EQ((place + before) % (1 << log), 0) << "an aligned tile";
            } else {
                ASSERT_EQ(place, last + 1) << "contiguous in its tile";
            }
            last = place;
        }
    }
}

TEST(RaggedRows, EachPageHasAPlaceOfItsOwn) {
    std::mt19937 random(3);
    for (int round = 0; round < 400; ++round) {
        const std::uint32_t most = 1u << (random() % 11);
        std::vector<std::uint32_t> pages(2 + random() % 31);
        for (std::uint32_t& n : pages) {
            n = (round % 2 == 0 ? 1 : most) + static_cast<std::uint32_t>(random() % most);
        }
        ASSERT_NO_FATAL_FAILURE(expect_rows(1 + static_cast<std::uint32_t>(random() % 4), pages)) << "round " << round;
    }
}

TEST(RaggedRows, LanesOfOneLengthNeedNoTable) {
    const ragged_rows rows = ragged_rows::of(4, 64, 64);
    EXPECT_EQ(rows.common_pages, 64u);
    EXPECT_EQ(rows.log_tile, 4u);
}

/// The example of ragged_rows.hpp.
TEST(RaggedRows, AreThoseOfTheDrawing) {
    const std::vector<std::uint32_t> pages{37, 16, 34, 21};
    const ragged_rows rows = ragged_rows::of(4, 16, 37);
    EXPECT_EQ(rows.log_tile, 4u);
    EXPECT_EQ(rows.log_step, 4u);
    EXPECT_EQ(rows.common_pages, 16u);
    std::int32_t before = 0;
    const row_table table = table_of(rows, pages, &before);
    EXPECT_EQ(before, 48) << "2 tiles, 12 pages of rests, a gap of 3 pages, and the table";
    EXPECT_EQ(table.steps[0].positions, 0b101u);
    EXPECT_EQ(table.rests[2].positions, 0b1001u);
    EXPECT_EQ(table.rests[1].positions, 0b100u);
    EXPECT_EQ(table.rests[0].positions, 0b1001u);
    // Lane 2: a page of its second tile, then both pages of its rest.
    EXPECT_EQ(rows.place_of(table, 2, 3), -48 + 16 + 3);
    EXPECT_EQ(rows.place_of(table, 2, 16), -48 + 32 + 8);
    EXPECT_EQ(rows.place_of(table, 2, 17), -48 + 32 + 9);
    // Lane 3: four pages of its rest, then one.
    EXPECT_EQ(rows.place_of(table, 3, 0), -48 + 32 + 4);
    EXPECT_EQ(rows.place_of(table, 3, 4), -48 + 32 + 11);
}

/// A lane that is much shorter than the others does not make the tiles small; it lies in the rests.
TEST(RaggedRows, AShortLaneDoesNotMakeTheTilesSmall) {
    EXPECT_EQ(ragged_rows::of(4, 1, 1024).log_tile, 4u);
    EXPECT_EQ(ragged_rows::of(4, 1, 1024).common_pages, 0u);
    EXPECT_EQ(ragged_rows::of(4, 5, 8).log_tile, 2u);
    EXPECT_EQ(ragged_rows::of(4, 5, 8).common_pages, 4u);
}

/// Steps are as long as it takes for the longest lane to have few.
TEST(RaggedRows, LongLanesHaveLongSteps) {
    for (std::uint32_t most : {100u, 10'000u, 1'000'000u, 1u << 28}) {
        const ragged_rows rows = ragged_rows::of(4, 16, most);
        EXPECT_LT((most - rows.common_pages) >> rows.log_step, row_table::max_steps);
        EXPECT_LE(rows.log_step, row_table::max_log_step);
    }
}

}  // namespace
}  // namespace orchard::test
