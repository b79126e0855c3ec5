// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench first` in small, on the emulated device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "profiling/bench/first.hpp"
#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

/// Expects the figures of a row of times; the names end as in `first::add_times`.
void expect_times(const nlohmann::ordered_json& row, const std::string& what) {
    for (const char* repetition : {"_first_us", "_third_us", "_tenth_us", "_settled_us", "_3_to_10_us"}) {
        EXPECT_GT(row[what + repetition], 0) << repetition << " in " << row;
    }
}

/// The rows of one run, for all tests.
const absl::StatusOr<nlohmann::ordered_json>& rows_of_first() {
    static const absl::StatusOr<nlohmann::ordered_json> rows = run_quickly("first");
    return rows;
}

TEST(bench_first, has_times_of_each_repetition_for_both_backings_and_none_is_wrong) {
    const auto& rows = rows_of_first();
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::map<std::string, int> kinds;
    for (const auto& row : *rows) {
        ++kinds[absl::StrCat(row["what"].get<std::string>(), ", ", row["backing"].get<std::string>())];
        EXPECT_EQ(row["heaps"], 2) << row;
        if (row["what"] == "divergent lists: memory") {
            continue;
        }
        EXPECT_EQ(row["repetitions"], 24) << row;
        EXPECT_EQ(row["settled_of"], 12) << row;
        EXPECT_EQ(row["nulls"], 0) << row;
        EXPECT_EQ(row["wrong_stamps"], 0) << row;
        expect_times(row, "allocate");
        expect_times(row, "free");
        EXPECT_GE(row["first_wall_us"], row["allocate_first_us"]) << row;
        EXPECT_EQ(row.contains("of_fixed"), row["what"] != "divergent lists" && row["backing"] == "elastic") << row;
    }
    // A GPU also has rows of loading.
    EXPECT_EQ(kinds, (std::map<std::string, int>{{"repetitions, elastic", 5},
                                                 {"repetitions, fixed", 5},
                                                 {"one lane of a warp, elastic", 1},
                                                 {"one lane of a warp, fixed", 1},
                                                 {"divergent lists, elastic", 1},
                                                 {"divergent lists: memory, elastic", 3}}));
}

TEST(bench_first, memory_of_lists_is_what_is_live_at_the_peak) {
    const auto& rows = rows_of_first();
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::vector<int> rounds;
    for (const auto& row : *rows) {
        if (row["what"] != "divergent lists: memory") {
            continue;
        }
        rounds.push_back(row["round"]);
        // 640 lists of 3.5 nodes of 7.6 KiB on average, plus the rounding to pages.
        EXPECT_GT(row["live_mib"], 12) << row;
        EXPECT_LT(row["live_mib"], 25) << row;
        EXPECT_GE(row["held_mib"], row["live_mib"]) << row;
        EXPECT_GE(row["committed_mib"], row["held_mib"]) << row;
    }
    EXPECT_THAT(rounds, ::testing::ElementsAre(1, 6, 20));
}

TEST(bench_first, settled_is_the_median_of_the_last_twenty_or_of_the_last_half) {
    std::vector<double> times;
    for (int i = 1; i <= 100; ++i) {
        times.push_back(i <= 80 ? 1000 : i);
    }
    EXPECT_EQ(first::settled(times), 91);  // of 81 to 100, the upper one of the two in the middle
    EXPECT_EQ(first::settled({9, 8, 7, 6, 5, 1, 2, 3, 4, 5}), 3);
    EXPECT_EQ(first::settled({9, 1, 2}), 2);
    EXPECT_EQ(first::settled({7}), 7);
    EXPECT_EQ(first::third_to_tenth({1000, 1000, 1, 2, 3, 4, 5, 6, 7, 8, 1000}), 36);
}

}  // namespace
}  // namespace orchard::bench
