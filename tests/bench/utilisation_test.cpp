// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The utilisation that a heap could reach, by arithmetic, and `orchard bench utilisation` at small scale.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "profiling/bench/page_waste.hpp"
#include "tests/bench/run_benchmark.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::bench {
namespace {

constexpr double near = 1e-9;

TEST(page_waste, a_class_size_is_one_that_is_not_rounded_up) {
    for (const std::uint32_t bytes : {16u, 32u, 48u, 64u, 80u, 96u, 112u, 128u, 160u, 5120u, 8192u, 524'288u}) {
        EXPECT_TRUE(is_class_size(bytes)) << bytes;
        EXPECT_FALSE(is_class_size(bytes - 1)) << bytes - 1;
    }
    EXPECT_FALSE(is_class_size(144));
}

TEST(page_waste, requests_are_whole_pages_of_whole_slabs) {
    EXPECT_EQ(requests_that_fit(16, {1, 0}), 131'072u);
    EXPECT_EQ(requests_that_fit(8192, {3, 0}), 3u * 256);
    EXPECT_EQ(requests_that_fit(5120, {1, 0}), 409u);  // and 3,072 B at the end of the slab
    EXPECT_EQ(requests_that_fit(4112, {1, 0}), 409u);  // rounded up to 5,120 B
}

TEST(page_waste, metadata_counts_as_used) {
    EXPECT_NEAR(utilisation_percent(16, 131'072, {1, 0}), 100, near);
    EXPECT_NEAR(utilisation_percent(16, 65'536, {1, 0}), 50, near);
    EXPECT_NEAR(utilisation_percent(16, 131'072, {1, segment_bytes}), 50, near);
    EXPECT_NEAR(utilisation_percent(4112, 409, {1, 0}), 100.0 * 409 * 4112 / segment_bytes, near);
}

TEST(page_waste, summaries_name_the_worst) {
    const std::array<size_utilisation, 3> sizes{{{16, 90, 100}, {32, 60, 80}, {48, 75, 90}}};
    const utilisation_summary s = summarise(sizes);
    EXPECT_EQ(s.sizes, 3u);
    EXPECT_NEAR(s.average_percent, 75, near);
    EXPECT_NEAR(s.worst_percent, 60, near);
    EXPECT_EQ(s.worst_at_bytes, 32u);
    EXPECT_NEAR(s.reachable_average_percent, 90, near);
    EXPECT_NEAR(s.reachable_worst_percent, 80, near);
    EXPECT_EQ(summarise({}).sizes, 0u);
}

TEST(bench_utilisation, fills_a_heap_as_far_as_its_classes_allow) {
    const auto rows = run_quickly("utilisation");
    ASSERT_TRUE(rows.ok()) << rows.status();
    int sizes = 0;
    for (const auto& row : *rows) {
        if (row["what"] != "one size") {
            continue;
        }
        ++sizes;
        EXPECT_GT(row["allocations"], 0) << row;
        const double percent = row["percent"].get<double>();
        const double reachable = row["reachable_percent"].get<double>();
        EXPECT_LE(percent, reachable + near) << row;
        EXPECT_GE(percent, 0.97 * reachable) << row;
        if (row["bytes"] >= 2048) {
            // One warp only, so that no page is held by another warp: the first null comes after the last page.
            EXPECT_NEAR(percent, reachable, near) << row;
            EXPECT_EQ(row["after_the_first_null"], 0) << row;
        }
        EXPECT_EQ(row["is_class"], row["bytes"] == row["class_bytes"]) << row;
    }
    EXPECT_EQ(sizes, 8);
    EXPECT_EQ(rows->back()["what"], "all sizes");
    EXPECT_EQ(rows->back()["sizes"], sizes);
    EXPECT_EQ(rows->back()["target_worst_percent"], 80);
}

}  // namespace
}  // namespace orchard::bench
