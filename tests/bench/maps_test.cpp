// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench maps` at small scale: both maps hold what was inserted.

#include <gtest/gtest.h>

#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

TEST(bench_maps, finds_what_it_inserts) {
    const auto rows = run_quickly("maps");
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(rows->size(), 8u);  // two sizes, two beginnings, two maps
    for (const auto& row : *rows) {
        EXPECT_EQ(row["nulls"], 0) << row;
        EXPECT_EQ(row["wrong"], 0) << row;
        EXPECT_GT(row["insert_us"], 0) << row;
        EXPECT_EQ(row.contains("erase_us"), row["map"] == "growing") << row;
        if (row["map"] == "growing") {
            EXPECT_GE(row["buckets"].get<double>() * 14, row["keys"].get<double>()) << row;
        }
    }
}

}  // namespace
}  // namespace orchard::bench
