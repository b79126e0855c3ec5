// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench managed` and `orchard bench paging` at small scale, and their detection of the location of pages. On
// the emulated device nothing moves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "profiling/bench/watched_memory.hpp"
#include "tests/bench/run_benchmark.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::bench {
namespace {

TEST(watched_memory, says_which_pages_are_mapped) {
    constexpr std::uint64_t bytes = 64 * os_page_bytes;
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    ASSERT_EQ(madvise(at, bytes, MADV_NOHUGEPAGE), 0);
    EXPECT_EQ(*bytes_moved_away(at, bytes), bytes);
    static_cast<char*>(at)[5 * os_page_bytes] = 1;
    const auto mapped = pages_mapped(at, bytes);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    for (std::size_t i = 0; i < mapped->size(); ++i) {
        EXPECT_EQ((*mapped)[i], i == 5) << i;
    }
    bool moved = false;
    const auto move = [&] {
        moved = true;
        return absl::OkStatus();
    };
    EXPECT_TRUE(map_on_host(at, bytes, move).ok());
    EXPECT_TRUE(moved);
    EXPECT_EQ(*bytes_moved_away(at, bytes), 0u);
    EXPECT_EQ(munmap(at, bytes), 0);
}

TEST(bench_managed, has_every_pattern_layout_and_way) {
    const auto rows = run_quickly("managed");
    ASSERT_TRUE(rows.ok()) << rows.status();
    int layouts = 0;
    int touches = 0;
    for (const auto& row : *rows) {
        if (row["what"] == "reads of arrays on the host") {
            ++layouts;
            EXPECT_EQ(row["moved_mb"], 0) << row;
        }
        touches += row["what"] == "first touch of new memory" ? 1 : 0;
    }
    EXPECT_EQ(layouts, 2 * 3 * 2 * 3);  // sizes, layouts, ways, patterns
    EXPECT_EQ(touches, 4);
    EXPECT_EQ(rows->size(), static_cast<std::size_t>(layouts + touches + 4));
}

TEST(bench_ranges, has_every_size_layout_and_pattern) {
    const auto rows = run_quickly("ranges");
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(rows->size(), 4u * 3u * 2u);  // sizes, layouts, patterns
    for (const auto& row : *rows) {
        EXPECT_EQ(row["moved_mb"], 0) << row;
        EXPECT_EQ(row["used_64k"], 0) << row;
    }
}

TEST(bench_managed, is_refused_above_the_limit) {
    settings s;
    EXPECT_TRUE(check_managed(s, 1 << 20).ok()) << "no limit";
    s.heap.managed_limit = 1 << 20;
    EXPECT_TRUE(check_managed(s, 1 << 20).ok());
    const absl::Status above = check_managed(s, (1 << 20) + 1);
    EXPECT_EQ(above.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(above.message(), testing::HasSubstr("1048577 bytes of managed memory, more than managed_limit"));
    options small;
    small.managed_limit = 1 << 20;
    EXPECT_EQ(run_quickly("managed", small).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(bench_paging, is_refused_where_no_driver_pages) {
    const auto rows = run_quickly("paging");
    EXPECT_TRUE(absl::IsFailedPrecondition(rows.status())) << rows.status();
    EXPECT_THAT(std::string(rows.status().message()), ::testing::HasSubstr("orchard uvm"));
}

}  // namespace
}  // namespace orchard::bench
