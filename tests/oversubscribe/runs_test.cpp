// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The rows of `orchard oversubscribe`, on the emulated device and at sizes that take no time.

#include "profiling/oversubscribe/runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include <map>
#include <string>
#include <vector>

#include "uvm/geometry/geometry.hpp"

namespace orchard::oversubscribe {
namespace {

using ::testing::ElementsAre;

plan small() {
    plan p;
    p.heap.capacity = 8 * segment_bytes;
    p.heap.emulated_workers = 1;
    p.data = {2, 0.5};
    p.patterns = {pattern::random};
    p.threads = 64;
    p.passes = 3;
    p.accesses = 50;
    p.part = 1 << 20;
    return p;
}

/// All rows of a plan.
std::vector<row> rows_of(
    const plan& p, const std::function<bool(const row&)>& is_known = [](const row&) { return false; }) {
    std::vector<row> rows;
    const absl::Status status = run(p, is_known, [&](const row& r) {
        rows.push_back(r);
        return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return rows;
}

std::string axes(const row& r) {
    return r["pattern"].get<std::string>() + " " + r["layout"].get<std::string>() + " " + r["data"].dump() + " " +
           r["way"].get<std::string>() + " " + r["by"].get<std::string>();
}

TEST(oversubscribe, runs_each_way_of_each_size_in_ascending_order) {
    std::vector<std::string> found;
    for (const row& r : rows_of(small())) {
        found.push_back(axes(r));
    }
    EXPECT_THAT(found, ElementsAre("random linear 0.5 device emulated", "random linear 0.5 stay emulated",
                                   "random linear 0.5 move emulated", "random linear 0.5 managed model",
                                   "random linear 2.0 device emulated", "random linear 2.0 stay emulated",
                                   "random linear 2.0 move emulated", "random linear 2.0 managed model"));
}

TEST(oversubscribe, every_pattern_reads_what_was_written) {
    plan p = small();
    p.patterns = {pattern::working_set, pattern::random,  pattern::same_index,
                  pattern::sequential,  pattern::strided, pattern::graph_walk};
    p.layouts = {layout::linear(), layout::interleaved(tile::k64)};
    p.ways = {way::device, way::stay, way::move};
    for (const row& r : rows_of(p)) {
        EXPECT_EQ(r["wrong"], 0) << r;
        EXPECT_EQ(r["nulls"], 0) << r;
        EXPECT_EQ(r["late_threads"], 0) << r;
        EXPECT_GT(r["kernels_ms"], 0) << r;
        EXPECT_GT(r["kernel_third_ms"], 0) << r;
    }
}

TEST(oversubscribe, a_working_set_moves_to_the_device_and_nothing_moves_where_it_is_to_stay) {
    plan p = small();
    p.data = {4};
    p.patterns = {pattern::working_set};
    std::map<std::string, row> by_way;
    for (const row& r : rows_of(p)) {
        by_way[r["way"]] = r;
    }
    EXPECT_EQ(by_way.size(), 4u);
    EXPECT_EQ(by_way["managed"]["by"], "model");
    EXPECT_GE(by_way["managed"]["moved_to_device_bytes"], 4 * 8 * segment_bytes / 4) << "all of the working set";
    EXPECT_GT(by_way["move"]["moved_to_device_bytes"], 0);
    EXPECT_EQ(by_way["move"]["moved_to_device_bytes"], by_way["move"]["moved_to_host_bytes"]);
    EXPECT_EQ(by_way["stay"]["moved_to_device_bytes"], 0);
    EXPECT_LT(by_way["stay"]["resident_share"], 0.5);
    EXPECT_EQ(by_way["device"]["resident_share"], 1.0);
}

TEST(oversubscribe, applications_run_in_each_way) {
    plan p = small();
    p.patterns = {};
    p.applications = *apps::apps_named("stencil");
    for (const row& r : rows_of(p)) {
        EXPECT_EQ(r["pattern"], "stencil");
        EXPECT_GT(r["kernel_first_ms"], 0) << r;
        EXPECT_GT(r["checked"], 0) << r;
        EXPECT_FALSE(r.contains("error")) << r;
        if (r["by"] == "model") {
            EXPECT_EQ(r["model_scale"], 1.0) << r;  // the run itself, not one of fewer threads
            EXPECT_GE(r["moved_to_device_bytes"], r["bytes"].get<double>() * r["part"].get<double>() / 2) << r;
        }
    }
}

TEST(oversubscribe, rows_that_are_known_are_not_run_again) {
    const auto rows = rows_of(small(), [](const row& r) { return r["way"] != "stay" || r["data"] == 2.0; });
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(axes(rows[0]), "random linear 0.5 stay emulated");
}

TEST(oversubscribe, threads_end_at_the_limit_of_a_kernel) {
    plan p = small();
    p.ways = {way::stay};
    p.data = {0.5};
    p.kernel_seconds = 0;
    for (const pattern which : {pattern::random, pattern::working_set}) {
        p.patterns = {which};
        const auto rows = rows_of(p);
        ASSERT_EQ(rows.size(), 1u);
        EXPECT_GT(rows[0]["late_threads"], 0);
    }
}

TEST(oversubscribe, a_run_over_managed_memory_that_does_not_end_is_noticed) {
    plan p = small();
    p.ways = {way::managed};
    p.data = {0.5};
    p.passes = 300;
    p.heap.allow_oversubscription = p.measures_managed = true;
    std::atomic<int> calls = 0;
    p.stuck = [&] { ++calls; };
    const auto rows = rows_of(p);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(axes(rows[0]), "random linear 0.5 managed emulated");
    EXPECT_EQ(calls, 0) << "it has ended in time";
    p.managed_patience = absl::ZeroDuration();
    rows_of(p);
    EXPECT_EQ(calls, 1);
}

TEST(oversubscribe, an_error_of_the_file_ends_the_runs) {
    int rows = 0;
    const absl::Status full = run(
        small(), [](const row&) { return false; },
        [&](const row&) {
            ++rows;
            return absl::UnavailableError("the disk is full");
        });
    EXPECT_EQ(full, absl::UnavailableError("the disk is full"));
    EXPECT_EQ(rows, 1);
}

}  // namespace
}  // namespace orchard::oversubscribe
