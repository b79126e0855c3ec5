// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Compares the model, with one set of constants, with all measurements on an H200. docs/uvm_model.md discusses these
/// comparisons.

#include "tests/uvm_model/h200_table.hpp"

#include <absl/strings/str_format.h>
#include <gtest/gtest.h>

namespace orchard::uvm_model {
namespace {

using testing::cell;
using testing::h200_rounds;
using testing::h200_table;
using testing::rounds;
using testing::run_cell;
using testing::run_rounds;

class h200_cell : public ::testing::TestWithParam<std::size_t> {};

TEST_P(h200_cell, takes_the_time_that_was_measured) {
    const cell& c = h200_table[GetParam()];
    // For the documentation: --gtest_output=xml:FILE
    const result first = run_cell(c, 1);
    RecordProperty("row", c.row);
    RecordProperty("ms", absl::StrFormat("%.1f", first.seconds * 1e3));
    RecordProperty("MB", absl::StrFormat("%.1f", static_cast<double>(first.bytes_in()) * 1e-6));
    RecordProperty("batches", absl::StrFormat("%u", first.batches));
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        // Two machines of this kind differ by as much.
        EXPECT_NEAR(run_cell(c, seed).seconds * 1e3, c.milliseconds, 0.3 * c.milliseconds) << c.row << ", " << seed;
    }
}

TEST_P(h200_cell, moves_the_bytes_that_were_counted) {
    const cell& c = h200_table[GetParam()];
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        const double megabytes = static_cast<double>(run_cell(c, seed).bytes_in()) * 1e-6;
        EXPECT_NEAR(megabytes, c.megabytes, 0.05 * c.megabytes) << c.row << ", " << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(cells, h200_cell, ::testing::Range<std::size_t>(0, h200_table.size()),
                         ::testing::PrintToStringParamName());

TEST(h200_rounds, take_the_time_and_move_the_bytes_that_were_measured) {
    for (const rounds& r : h200_rounds) {
        const result done = run_rounds(r);
        const auto count = static_cast<double>(r.count);
        EXPECT_NEAR(done.seconds * 1e6 / count, r.microseconds, 0.15 * r.microseconds) << r.what;
        EXPECT_EQ(static_cast<double>(done.bytes_in()) / 1024 / count, r.moved_kib) << r.what;
    }
}

}  // namespace
}  // namespace orchard::uvm_model
