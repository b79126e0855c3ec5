// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The repetitions that a row of a benchmark shows; every benchmark that repeats a launch must show them.

#include "profiling/bench/repetitions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench {
namespace {

using nlohmann::ordered_json;

/// 1, 2, 3, ...
std::vector<double> numbered(std::size_t count) {
    std::vector<double> times(count);
    std::iota(times.begin(), times.end(), 1.0);
    return times;
}

TEST(repetitions, are_those_of_that_number_and_the_median_of_the_last_half) {
    const repetition_times shown = repetitions_of(numbered(20));
    EXPECT_EQ(shown.first, 1);
    EXPECT_EQ(shown.third, 3);
    EXPECT_EQ(shown.tenth, 10);
    EXPECT_EQ(shown.settled, 16);  // of 11 to 20, the upper one of the two in the middle
}

TEST(repetitions, which_there_were_too_few_for_are_missing) {
    EXPECT_EQ(repetitions_of({}).first, std::nullopt);
    EXPECT_EQ(repetitions_of({}).settled, std::nullopt);
    EXPECT_EQ(repetitions_of({7}).first, 7);
    EXPECT_EQ(repetitions_of({7}).settled, 7);
    EXPECT_EQ(repetitions_of(numbered(2)).third, std::nullopt);
    EXPECT_EQ(repetitions_of(numbered(3)).third, 3);
    EXPECT_EQ(repetitions_of(numbered(9)).tenth, std::nullopt);
    EXPECT_EQ(repetitions_of(numbered(10)).tenth, 10);
}

TEST(repetitions, are_settled_without_the_first_half) {
    EXPECT_EQ(repetitions_of({900, 800, 700, 3, 1, 2}).settled, 2);
    EXPECT_EQ(repetitions_of({900, 800, 3, 1, 2}).settled, 2) << "the middle one of an odd number belongs to it";
}

TEST(repetitions, median_without_the_warm_up) {
    EXPECT_EQ(median_after(0, {3, 1, 2}), 2);
    EXPECT_EQ(median_after(2, {900, 800, 3, 1, 2}), 2);
    EXPECT_EQ(median_after(3, {1, 2, 3}), 0);
}

TEST(repetitions, have_a_column_each_also_where_there_is_none) {
    ordered_json row{{"malloc_us", 5}};
    add_repetitions(row, "malloc", {4, 5, 6});
    add_repetitions(row, "", {1}, "ms");
    EXPECT_EQ(row, (ordered_json{{"malloc_us", 5},
                                 {"malloc_first_us", 4.0},
                                 {"malloc_third_us", 6.0},
                                 {"malloc_tenth_us", nullptr},
                                 {"malloc_settled_us", 6.0},
                                 {"first_ms", 1.0},
                                 {"third_ms", nullptr},
                                 {"tenth_ms", nullptr},
                                 {"settled_ms", 1.0}}));
}

/// Expects that each row, or each of those with `of_what`, has the columns of a measurement with this many repetitions.
void expect_repetitions(const ordered_json& rows, const std::string& what, std::size_t times,
                        const std::string& unit = "us", const std::string& of_what = "") {
    int seen = 0;
    for (const auto& row : rows) {
        if (!of_what.empty() && row["what"] != of_what) {
            continue;
        }
        ++seen;
        const auto column = [&](const char* which) { return row.at(what + which + unit); };
        EXPECT_TRUE(column("first_").is_number()) << row;
        EXPECT_EQ(column("third_").is_number(), times >= 3) << row;
        EXPECT_EQ(column("tenth_").is_number(), times >= 10) << row;
        EXPECT_TRUE(column("settled_").is_number()) << row;
    }
    EXPECT_GT(seen, 0) << what << of_what;
}

TEST(bench_repetitions, of_small_requests_begin_with_the_first_launch) {
    const auto rows = run_quickly("pages");
    ASSERT_TRUE(rows.ok()) << rows.status();
    // Two repetitions for the medians, two more before them, and the very first if it is separate.
    expect_repetitions(*rows, "malloc_", 5, "us", "fixed");
    expect_repetitions(*rows, "free_", 5, "us", "fixed");
    expect_repetitions(*rows, "floor_malloc_", 4, "us", "fixed");
    expect_repetitions(*rows, "floor_free_", 4, "us", "fixed");
    expect_repetitions(*rows, "empty_", 2, "us", "fixed");
    expect_repetitions(*rows, "malloc_", 5, "us", "mixed");
    expect_repetitions(*rows, "malloc_", 3, "us", "churn");
    expect_repetitions(*rows, "malloc_", 4, "us", "nearly full");
    for (const auto& row : *rows) {
        if (row["what"] == "fixed") {
            EXPECT_EQ(row["malloc_first_us"], row["cold_us"]) << row;
        }
    }
}

TEST(bench_repetitions, of_requests_to_the_host) {
    const auto mailbox = run_quickly("mailbox");
    ASSERT_TRUE(mailbox.ok()) << mailbox.status();
    expect_repetitions(*mailbox, "", 4, "us", "round trip of a lone warp");
    expect_repetitions(*mailbox, "", 4, "us", "warps asking at once");
    expect_repetitions(*mailbox, "", 4, "us", "an echo alone");
    expect_repetitions(*mailbox, "", 4, "us", "from the segment cache");
    expect_repetitions(*mailbox, "", 2, "us", "an empty kernel");
    EXPECT_EQ(mailbox->front()["mailbox_memory"], "pinned");
    options managed;
    managed.mailbox_memory = mailbox_memory_option::managed;
    const auto in_managed = run_quickly("mailbox", managed);
    ASSERT_TRUE(in_managed.ok()) << in_managed.status();
    EXPECT_EQ(in_managed->size(), mailbox->size());
    EXPECT_EQ(in_managed->front()["mailbox_memory"], "managed");
    const auto chunks = run_quickly("chunks");
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    expect_repetitions(*chunks, "", 2);
}

TEST(bench_repetitions, of_large_requests_and_of_shortage) {
    const auto sizes = run_quickly("sizes");
    const auto iterations = run_quickly("iterations");
    const auto scaling = run_quickly("scaling");
    const auto shortage = run_quickly("shortage");
    for (const auto* rows : {&sizes, &iterations, &scaling, &shortage}) {
        ASSERT_TRUE(rows->ok()) << rows->status();
    }
    expect_repetitions(*sizes, "cold_", 3);
    expect_repetitions(*sizes, "recycled_", 2);
    expect_repetitions(*sizes, "free_", 5);
    expect_repetitions(*iterations, "allocate_", 30);
    expect_repetitions(*iterations, "free_", 30);
    expect_repetitions(*iterations, "iteration_", 30);
    expect_repetitions(*scaling, "allocate_", 3);
    expect_repetitions(*scaling, "free_", 3);
    expect_repetitions(*shortage, "launch_", 2);
    expect_repetitions(*shortage, "latest_", 2);
    for (const auto& row : *shortage) {
        EXPECT_EQ(row["launch_us"], row["launch_first_us"]) << row;
        EXPECT_EQ(row["latest_us"], row["latest_first_us"]) << row;
    }
}

TEST(bench_repetitions, of_growth) {
    const auto rows = run_quickly("growth");
    ASSERT_TRUE(rows.ok()) << rows.status();
    expect_repetitions(*rows, "", 3, "ms", "creation");
    expect_repetitions(*rows, "", 2, "ms", "growing");
    expect_repetitions(*rows, "", 2, "ms", "committed before");
}

TEST(bench_repetitions, of_accesses_and_of_managed_memory) {
    const auto access = run_quickly("access");
    ASSERT_TRUE(access.ok()) << access.status();
    for (const auto& row : *access) {
        if (row["pattern"] == "dependent reads") {
            expect_repetitions(ordered_json::array({row}), "per_100_", 3, "ns");
        } else {
            expect_repetitions(ordered_json::array({row}), "", 3);
        }
    }
    const auto managed = run_quickly("managed");
    ASSERT_TRUE(managed.ok()) << managed.status();
    expect_repetitions(*managed, "", 3, "ms", "reads of arrays on the host");
    expect_repetitions(*managed, "", 3, "ms", "freed memory back to the host");
    expect_repetitions(*managed, "", 3, "ms", "first touch of new memory");
    expect_repetitions(*managed, "again_", 3, "ms", "first touch of new memory");
}

TEST(bench_repetitions, what_is_shown_is_said_by_each_benchmark_that_repeats) {
    for (const benchmark& b : all()) {
        for (const char* name : {"access", "chunks", "growth", "iterations", "mailbox", "managed", "pages", "paging",
                                 "ranges", "scaling", "shortage", "sizes"}) {
            EXPECT_TRUE(b.name != name || !b.shown.empty()) << name;
        }
    }
}

}  // namespace
}  // namespace orchard::bench
