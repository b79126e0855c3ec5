// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench managed` and `orchard bench paging` at small scale, and their detection of the location of pages. On
// the emulated device nothing moves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <set>
#include <string>
#include <utility>

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
    EXPECT_EQ(rows->size(),
              4u * 3u * 2u + 3u * 2u * 2u);  // sizes, layouts, patterns; sizes with tails, tails, patterns
    for (const auto& row : *rows) {
        EXPECT_EQ(row["moved_mb"], 0) << row;
        EXPECT_EQ(row["used_64k"], 0) << row;
        EXPECT_GT(row["ms"], 0) << row;
    }
}

// Two warps. Their whole segments are 1, 2 and 8 each, and a tail is 128, 128 or 256 KiB, or two for both warps.
TEST(bench_ranges, pooled_tails_share_va_blocks) {
    const auto rows = run_quickly("ranges");
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::map<std::pair<int, std::string>, double> blocks;
    for (const auto& row : *rows) {
        if (!row.contains("tails")) {
            continue;
        }
        const int kib = row["bytes_a_thread"].get<int>() / 1024;
        const double granted = row["granted_over_asked"].get<double>() * 64 * kib / 2048;
        blocks[{kib, row["tails"]}] = granted;
        EXPECT_LE(row["va_blocks"], granted) << row;
        EXPECT_GE(row["va_blocks"].get<double>(), 64 * kib / 2048) << "all whole segments: " << row;
        EXPECT_GT(row["prefetch_ms"], 0) << row;
    }
    EXPECT_EQ(blocks, (std::map<std::pair<int, std::string>, double>{{{66, "adjacent"}, 4},
                                                                     {{66, "pooled"}, 3},
                                                                     {{132, "adjacent"}, 6},
                                                                     {{132, "pooled"}, 5},
                                                                     {{520, "adjacent"}, 18},
                                                                     {{520, "pooled"}, 17}}));
}

TEST(bench_ranges, tails_beyond_the_limit_of_managed_heaps_are_left_out) {
    options values;
    values.managed_limit = 64 << 20;  // of 66 and 132 KiB a thread, twice the arrays and 32 MiB fit
    const auto rows = run_quickly("ranges", values);
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::set<int> sizes;
    for (const auto& row : *rows) {
        if (row.contains("tails")) {
            sizes.insert(row["bytes_a_thread"].get<int>() / 1024);
        }
    }
    EXPECT_EQ(sizes, (std::set<int>{66, 132}));
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
