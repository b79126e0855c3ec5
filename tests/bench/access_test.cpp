// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench access` at small scale: there is a row for each way of each pattern, and all ways read and write the
// same bytes. The lengths of unequal lanes, and the orders in which they are accessed.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "profiling/bench/access_ways.cuh"
#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

/// Returns a text that identifies a row; no two rows have the same.
std::string name_of(const nlohmann::ordered_json& row) {
    return absl::StrCat(row["pattern"].get<std::string>(), ", ", row["layout"].get<std::string>(), ", ",
                        row["array_bytes"].get<int>(), " B of ", row["element_bytes"].get<int>(), ", ",
                        row["by"].get<std::string>());
}

constexpr int long_array = 128 << 10;

std::set<std::string> expected_rows() {
    std::set<std::string> names;
    int bytes = 4096;
    const auto add = [&](const std::string& layout, int element, const std::string& pattern, bool pieces, bool chains) {
        const std::string of = absl::StrCat(pattern, ", ", layout, ", ", bytes, " B of ", element, ", ");
        const bool linear = layout == "linear";
        for (const char* by : {"lane_array", "lane_ptr"}) {
            names.insert(of + by);
        }
        if (pieces) {
            names.insert(of + "for_each_tile");
        }
        if (!linear) {
            names.insert(of + "by hand");
        }
        if (linear || chains) {
            names.insert(of + "raw pointer");
        }
    };
    const auto add_layout = [&](const std::string& layout, int element, bool chains) {
        add(layout, element, "sequential read", true, false);
        add(layout, element, "sequential write", true, false);
        add(layout, element, "strided read", false, false);
        add(layout, element, "random read", false, false);
        if (chains) {
            add(layout, element, "dependent reads", false, true);
        }
    };
    add_layout("linear", 4, true);
    add_layout("4 B tile", 4, true);
    add_layout("16 B tile", 4, true);
    add_layout("64 B tile", 4, false);
    add_layout("4 KiB tile", 4, false);
    add_layout("linear", 16, false);
    add_layout("16 B tile", 16, false);
    bytes = long_array;
    add_layout("linear", 4, false);
    add_layout("64 KiB tile", 4, false);
    for (const std::string pattern : {"sequential read", "sequential write", "strided read", "random read"}) {
        for (const std::string layout : {"linear", "64 KiB tile"}) {
            const std::string of = absl::StrCat(pattern, ", unequal lanes, ", layout, ", ", bytes, " B of 4, ");
            names.insert(of + "lane_array");
            if (pattern.starts_with("sequential")) {
                names.insert(of + "for_each_tile");
            }
            if (layout == "linear") {
                names.insert(of + "raw pointer");
            }
        }
    }
    return names;
}

TEST(bench_access, has_a_row_for_each_way_and_none_is_wrong) {
    const auto rows = run_quickly("access");
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::multiset<std::string> seen;
    for (const auto& row : *rows) {
        EXPECT_EQ(row["wrong"], 0) << row;
        if (row["pattern"] == "dependent reads") {
            seen.insert(absl::StrCat(name_of(row), ", ", row["threads"].get<int>()));
            // Times are differences on a host that may be busy. Only that of the raw pointer to itself is known.
            EXPECT_TRUE(row["by"] != "raw pointer" || row["over_raw_ns"] == 0) << row;
            continue;
        }
        seen.insert(name_of(row));
        EXPECT_GT(row["gb_per_s"], 0) << row;
        const bool unequal = row["pattern"].get<std::string>().ends_with("unequal lanes");
        EXPECT_EQ(row.contains("share_of_hand"), !unequal) << row;
        if (!unequal && (row["by"] == "by hand" || row["by"] == "raw pointer")) {
            EXPECT_EQ(row["share_of_hand"], 1) << row;
        }
        EXPECT_EQ(row.contains("share_of_linear"), row["array_bytes"] == long_array) << row;
        if (row["array_bytes"] == long_array && row["by"] == "raw pointer") {
            EXPECT_EQ(row["share_of_linear"], 1) << row;
        }
    }
    std::multiset<std::string> expected;
    for (const std::string& name : expected_rows()) {
        if (name.starts_with("dependent")) {
            expected.insert(name + ", 1");
            expected.insert(name + ", 32");
        } else {
            expected.insert(name);
        }
    }
    EXPECT_EQ(seen, expected);
}

TEST(bench_access, lengths_of_unequal_lanes_are_at_random_within_a_doubling) {
    constexpr std::uint32_t least = 32768;
    std::set<std::uint32_t> seen;
    for (std::uint32_t thread = 0; thread < 32; ++thread) {
        const std::uint32_t count = access::own_count(least, thread);
        EXPECT_GE(count, least);
        EXPECT_LT(count, 2 * least);
        EXPECT_EQ(count % 4, 0u) << "a batch is four elements";
        seen.insert(count);
    }
    EXPECT_GE(seen.size(), 30u);
}

TEST(bench_access, orders_of_any_length_stay_in_the_array) {
    constexpr std::uint32_t count = 65532;
    access::strided_in_any strided(count, 7);
    access::random_in_any random(count, 7);
    std::uint32_t greatest = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(strided.index(i), std::uint64_t{i} * 17 % count);
        greatest = std::max(greatest, random.index(i));
    }
    EXPECT_LT(greatest, count);
    EXPECT_GT(greatest, count - count / 8);
}

}  // namespace
}  // namespace orchard::bench
