// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The H200's table, with one set of constants for all of it. docs/uvm_model.md discusses what is held here.

#include "tests/uvm_model/h200_table.hpp"

#include <absl/strings/str_format.h>
#include <gtest/gtest.h>

namespace orchard::uvm_model {
namespace {

using testing::arrays;
using testing::cell;
using testing::h200_table;
using testing::reads;
using testing::run_cell;

/// The cells whose bytes were counted in full, or nearly so: all but the 64 KiB tiles of the correlated patterns and
/// linear arrays of 512 KiB with one shared random offset.
bool counted(const cell& c) {
    const bool many_copies =
        c.layout == arrays::tile_64k ||
        (c.layout == arrays::linear && c.pattern == reads::same_in_warp && c.thread_bytes < 1 << 20);
    return c.pattern == reads::own || !many_copies;
}

class h200_cell : public ::testing::TestWithParam<std::size_t> {};

TEST_P(h200_cell, takes_the_time_that_was_measured) {
    const cell& c = h200_table[GetParam()];
    // For the documentation: --gtest_output=xml:FILE
    const result first = run_cell(c, 1);
    RecordProperty("row", c.row);
    RecordProperty("ms", absl::StrFormat("%.1f", first.seconds * 1e3));
    RecordProperty("MB", absl::StrFormat("%.0f", static_cast<double>(first.bytes_in()) * 1e-6));
    RecordProperty("copies", absl::StrFormat("%u", first.copies_in));
    RecordProperty("batches", absl::StrFormat("%u", first.batches));
    RecordProperty("useful", absl::StrFormat("%.3f", first.useful_pages()));
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        EXPECT_NEAR(run_cell(c, seed).seconds * 1e3, c.milliseconds, 0.25 * c.milliseconds) << c.row << ", " << seed;
    }
}

TEST_P(h200_cell, moves_the_bytes_that_were_counted_or_more_where_not_all_were) {
    const cell& c = h200_table[GetParam()];
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        const double megabytes = static_cast<double>(run_cell(c, seed).bytes_in()) * 1e-6;
        if (counted(c)) {
            EXPECT_NEAR(megabytes, c.megabytes, 0.25 * c.megabytes) << c.row << ", " << seed;
        } else {
            EXPECT_GT(megabytes, c.megabytes) << c.row << ", " << seed;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(cells, h200_cell, ::testing::Range<std::size_t>(0, h200_table.size()),
                         ::testing::PrintToStringParamName());

// Two of the cells cannot have been counted in full: every page that is read has to be moved, whatever the driver does.
TEST(h200_table, two_counts_are_below_what_the_reads_themselves_need) {
    for (const std::size_t i : {0u, 1u}) {
        for (const std::uint64_t seed : {1u, 2u, 3u}) {
            const result r = run_cell(h200_table[i], seed);
            EXPECT_GT(static_cast<double>(r.touched_pages * os_page_bytes) * 1e-6, 1.2 * h200_table[i].megabytes);
        }
    }
}

// What the cells that were not counted in full have in common.
TEST(h200_table, the_counts_fall_short_where_there_are_many_copies) {
    std::uint64_t most_counted = 0;
    std::uint64_t fewest_short = ~std::uint64_t{0};
    for (const cell& c : h200_table) {
        const result r = run_cell(c, 1);
        const double share = c.megabytes * 1e6 / static_cast<double>(r.bytes_in());
        if (share > 0.75) {
            most_counted = std::max(most_counted, r.copies_in);
        } else {
            fewest_short = std::min(fewest_short, r.copies_in);
        }
        EXPECT_EQ(share > 0.75, counted(c)) << c.row;
    }
    EXPECT_LT(most_counted, 13'000u);
    EXPECT_GT(fewest_short, 11'000u);
}

}  // namespace
}  // namespace orchard::uvm_model
