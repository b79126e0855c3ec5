// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench moves` at small scale: the bytes of each row have moved, and are as they were.

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "tests/bench/run_benchmark.hpp"
#include "tests/support/run_command.hpp"

namespace orchard::bench {
namespace {

constexpr int repeats = 2;  // of `run_quickly`

TEST(bench_moves, moves_the_whole_block_both_ways_each_time) {
    const auto rows = run_quickly("moves");
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->size(), 4u);
    std::set<std::uint64_t> units;
    for (const auto& row : *rows) {
        const auto bytes = row["bytes"].get<std::uint64_t>();
        units.insert(row["move_unit"].get<std::uint64_t>());
        EXPECT_GT(bytes, 0u) << row;
        EXPECT_LE(row["move_unit"], row["bytes"]) << row;
        EXPECT_EQ(row["moved_to_host_bytes"], repeats * bytes) << row;
        EXPECT_EQ(row["moved_to_device_bytes"], repeats * bytes) << row;
        EXPECT_EQ(row["wrong_segments"], 0) << row;
        for (const std::string direction : {"to_host", "to_device"}) {
            EXPECT_GT(row[direction + "_first_ms"], 0) << row;
            EXPECT_GT(row[direction + "_settled_ms"], 0) << row;
            // The rate is that of the settled time.
            const double ms = row[direction + "_settled_ms"];
            EXPECT_DOUBLE_EQ(row[direction + "_gb_s"].get<double>() * ms * 1e6, static_cast<double>(bytes)) << row;
        }
    }
    EXPECT_GE(units.size(), 3u) << "no unit exceeds the block, which is small here";
}

TEST(bench_moves, prints_its_rows_and_writes_them_as_json) {
    const std::string file = testing::TempDir() + "moves.json";
    const auto [code, text] = test::run_emulated("bench", {"moves", "--quick", "--repeats", "2", "--json", file});
    ASSERT_EQ(code, 0) << text;
    for (const char* part : {"move_unit=2097152", "bytes=33554432", "to_host_gb_s=", "to_device_gb_s=",
                             "moved_to_host_bytes=67108864", "moved_to_device_bytes=67108864", "device: emulated"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
    }
    const auto document = nlohmann::json::parse(std::ifstream(file), nullptr, false);
    std::remove(file.c_str());
    ASSERT_TRUE(document.is_object());
    EXPECT_EQ(document["benchmark"], "moves");
    EXPECT_EQ(document["rows"].size(), 4u);
    EXPECT_EQ(document["rows"][0]["moved_to_device_bytes"], 2u * (32u << 20));
}

}  // namespace
}  // namespace orchard::bench
