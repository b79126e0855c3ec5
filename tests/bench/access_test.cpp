// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench access` at small scale: there is a row for each way of each pattern, and all ways read and write the
// same bytes.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

/// Returns a text that identifies a row; no two rows have the same.
std::string name_of(const nlohmann::ordered_json& row) {
    return absl::StrCat(row["pattern"].get<std::string>(), ", ", row["layout"].get<std::string>(), ", elements of ",
                        row["element_bytes"].get<int>(), ", ", row["by"].get<std::string>());
}

std::set<std::string> expected_rows() {
    std::set<std::string> names;
    const auto add = [&](const std::string& layout, int element, const std::string& pattern, bool pieces, bool chains) {
        const std::string of = absl::StrCat(pattern, ", ", layout, ", elements of ", element, ", ");
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
        EXPECT_GT(row["share_of_hand"], 0) << row;
        if (row["by"] == "by hand" || row["by"] == "raw pointer") {
            EXPECT_EQ(row["share_of_hand"], 1) << row;
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

}  // namespace
}  // namespace orchard::bench
