// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The benchmarks of large requests at small scale: they measure the right quantities, and find no error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;

/// Returns all rows of a benchmark whose blocks are stamped, after checking that no thread got null and no block was
/// overwritten.
ordered_json rows_without_fault(std::string_view name, const options& values = {}) {
    auto rows = run_quickly(name, values);
    EXPECT_TRUE(rows.ok()) << rows.status();
    if (!rows.ok()) {
        return ordered_json::array();
    }
    for (const auto& row : *rows) {
        EXPECT_EQ(row["nulls"], 0) << row;
        EXPECT_EQ(row["wrong_stamps"], 0) << row;
    }
    return *std::move(rows);
}

std::set<std::string> values_of(const ordered_json& rows, const char* key) {
    std::set<std::string> values;
    for (const auto& row : rows) {
        values.insert(row[key].is_string() ? row[key].get<std::string>() : row[key].dump());
    }
    return values;
}

TEST(bench_sizes, every_size_in_every_layout) {
    const ordered_json rows = rows_without_fault("sizes");
    EXPECT_EQ(rows.size(), 3u * 10);
    EXPECT_THAT(values_of(rows, "layout"), ElementsAre("interleaved:4", "interleaved:64K", "linear"));
    EXPECT_EQ(values_of(rows, "bytes_from").size(), 10u);
    for (const auto& row : rows) {
        // Cold means that the memory came from the host.
        EXPECT_GT(row["host_requests"], 0) << row;
    }
}

TEST(bench_sizes, iterations_and_scaling_in_managed_memory) {
    options managed;
    managed.backing = backing_option::managed;
    managed.managed_limit = 1 << 30;
    for (const char* name : {"sizes", "iterations", "scaling"}) {
        EXPECT_GT(rows_without_fault(name, managed).size(), 0u) << name;
    }
}

TEST(bench_iterations, in_every_mode) {
    const ordered_json rows = rows_without_fault("iterations");
    EXPECT_EQ(rows.size(), 4u * 3);  // linear, tiles of 4 B and of 64 KiB
    EXPECT_EQ(values_of(rows, "layout").size(), 3u);
    EXPECT_EQ(values_of(rows, "mode").size(), 4u);
    for (const auto& row : rows) {
        EXPECT_GT(row["first_us"], 0) << row;
        EXPECT_GT(row["last_us"], 0) << row;
        EXPECT_EQ(row["others"] > 0, row["mode"] == "others live") << row;
    }
}

TEST(bench_scaling, both_sizes_up_to_the_most_threads) {
    const ordered_json rows = rows_without_fault("scaling");
    EXPECT_EQ(rows.size(), 2u * 3 * 4);  // 128, 256, 512, 1,024 threads
    EXPECT_EQ(values_of(rows, "layout").size(), 3u);
    EXPECT_THAT(values_of(rows, "bytes"), ElementsAre("1024", "8192"));
}

TEST(bench_fragmentation, of_a_heap_used_for_some_time) {
    const auto rows = run_quickly("fragmentation");
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->size(), 6u);  // after 10 and 20 iterations, in three modes
    for (const auto& row : *rows) {
        EXPECT_GE(row["held_over_live"], 1) << row;
        EXPECT_LE(row["largest_bytes"], row["free_bytes"]) << row;
        if (row["mode"] == "lanes alone") {
            EXPECT_GT(row["live_share"], 0.5) << row;
            EXPECT_GT(row["largest_bytes"], 0) << row;
        }
    }
    const auto held = [&](std::size_t row) { return (*rows)[row]["held_over_live"].get<double>(); };
    // Lanes of whole warps, which free at different times: with shared chunks, and with chunks of their own.
    EXPECT_GT(held(5), 1.2 * held(3));
}

TEST(bench_shortage, refuses_nearly_all) {
    const auto rows = run_quickly("shortage");
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->size(), 4u * 2);
    for (const auto& row : *rows) {
        EXPECT_GT(row["nulls"], 0) << row;
        EXPECT_LE(row["nulls"], row["threads"]) << row;
    }
    EXPECT_EQ(rows->back()["nulls"], rows->back()["threads"]) << "the largest blocks, at last";
}

}  // namespace
}  // namespace orchard::bench
