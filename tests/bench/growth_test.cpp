// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench growth` in small, on the emulated device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

TEST(bench_growth, fills_heaps_with_and_without_growth_and_beyond_the_device) {
    const auto rows = run_quickly("growth");
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::map<std::string, int> kinds;
    for (const auto& row : *rows) {
        const std::string what = row["what"];
        ++kinds[what];
        if (row.contains("wrong")) {
            EXPECT_EQ(row["wrong"], 0) << row;
            EXPECT_EQ(row["nulls"], 0) << row;
            EXPECT_LE(row.at("beside_late"), row.at("beside")) << row;
            EXPECT_TRUE(row.contains("plain_us")) << row;
        }
        if (row.contains("lanes_at_once")) {
            EXPECT_GE(row["committed_to_in_use"], 1) << row;
            EXPECT_EQ(row["trimmed_mib"], 0) << row;
            EXPECT_TRUE(row.contains("to_committed_before")) << row;
        }
        if (what == "both budgets spent: nulls") {
            EXPECT_EQ(row["nulls"], 10) << row;
        }
    }
    EXPECT_EQ(kinds, (std::map<std::string, int>{{"creation", 1},
                                                 {"growing", 3},
                                                 {"committed before", 3},
                                                 {"growing, memory just given back", 1},
                                                 {"growing, extents of one size", 2},
                                                 {"spill: written as it grows", 1},
                                                 {"spill: written again", 1},
                                                 {"spill: read", 1},
                                                 {"both budgets spent: nulls", 1},
                                                 {"growing beside readers of the spill tier", 4},
                                                 {"committed before, beside readers of the spill tier", 2}}));
}

}  // namespace
}  // namespace orchard::bench
