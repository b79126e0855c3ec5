// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The applications on real memory, on the emulated device: right results in each layout and for a part of the work,
/// checks that see a wrong element, and a heap that is empty afterwards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <tuple>

#include "profiling/apps/app.hpp"
#include "runtime/heap/heap.hpp"
#include "uvm/geometry/layout_text.hpp"

namespace orchard::apps {

void PrintTo(const app& a, std::ostream* out) { *out << a.name; }

}  // namespace orchard::apps

namespace orchard::test {
namespace {

using apps::app;
using apps::job;
using apps::outcome;
using ::testing::HasSubstr;

constexpr std::uint64_t mib = 1 << 20;

heap make_heap(std::uint64_t capacity = 64 * mib) {
    auto made = heap::create({.device = device_option::emulated, .capacity = capacity});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
}

/// A run that takes some milliseconds: parts of 16 KiB and more, and several launches for each pass.
job small(layout how = layout::linear()) {
    job j;
    j.threads = 64;
    j.bytes = mib;
    j.how = how;
    j.passes = 2;
    j.limit_s = 1000;  // no clock decides what a test does
    j.accesses_of_piece = 20'000;
    return j;
}

std::string name_of(const app& a) {
    std::string name(a.name);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

class AppInLayout : public ::testing::TestWithParam<std::tuple<app, layout>> {};
INSTANTIATE_TEST_SUITE_P(All, AppInLayout,
                         ::testing::Combine(::testing::ValuesIn(apps::apps()),
                                            ::testing::Values(layout::linear(), layout::interleaved(tile::k64),
                                                              layout::interleaved(tile::k4),
                                                              layout::interleaved(tile::b4))),
                         [](const auto& of) {
                             std::string name = name_of(std::get<0>(of.param)) + "_" + text_of(std::get<1>(of.param));
                             std::replace(name.begin(), name.end(), ':', '_');
                             return name;
                         });

TEST_P(AppInLayout, ComputesWhatIsRight) {
    heap h = make_heap();
    const job j = small(std::get<1>(GetParam()));
    const auto found = run_app(h, std::get<0>(GetParam()), j);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(found->error.ok()) << found->error;
    EXPECT_EQ(found->wrong, 0u);
    EXPECT_EQ(found->nulls, 0u);
    EXPECT_GT(found->checked, 60u);
    EXPECT_EQ(found->part, 1);
    EXPECT_EQ(found->pass_us.size(), 2u);
    EXPECT_GT(found->pass_bytes, 0.0);
    EXPECT_LE(found->array_bytes, j.bytes * 102 / 100);
    EXPECT_GE(found->array_bytes, j.bytes * 85 / 100);
    EXPECT_EQ(found->resident_share(), 1);
}

class EachApp : public ::testing::TestWithParam<app> {};
INSTANTIATE_TEST_SUITE_P(All, EachApp, ::testing::ValuesIn(apps::apps()),
                         [](const auto& of) { return name_of(of.param); });

TEST_P(EachApp, ItsChecksSeeOneWrongElement) {
    heap h = make_heap();
    job j = small();
    j.passes = 1;
    j.samples = 1 << 20;  // all results
    for (int check = 0; check < (GetParam().name == "k-means" ? 2 : 1); ++check) {
        for (const std::uint64_t element : {0, 40}) {
            j.corrupt = apps::corruption{element, 1'000'000'007, check};
            const auto found = run_app(h, GetParam(), j);
            ASSERT_TRUE(found.ok()) << found.status();
            EXPECT_GE(found->wrong, 1u) << "check " << check << ", element " << element;
            EXPECT_TRUE(absl::IsInternal(found->error)) << found->error;
            EXPECT_THAT(std::string(found->error.message()), HasSubstr("checked results are wrong"));
        }
    }
    j.corrupt.reset();
    const auto found = run_app(h, GetParam(), j);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->wrong, 0u);
}

TEST_P(EachApp, DoesAPartOfItsWork) {
    heap h = make_heap();
    job j = small();
    j.samples = 1 << 20;
    j.part = 0.3;
    const auto wanted = run_app(h, GetParam(), j);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    EXPECT_TRUE(wanted->error.ok()) << wanted->error;
    EXPECT_GE(wanted->part, 0.3);
    // Of few outputs for each thread, or of a level of bfs, all are done.
    EXPECT_LE(wanted->part, 1);
    // The first launch takes longer than is allowed: each pass ends behind it.
    j.part = 1;
    j.limit_s = 1e-12;
    j.accesses_of_piece = 1;
    const auto first = run_app(h, GetParam(), j);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(first->error.ok()) << first->error;
    EXPECT_EQ(first->pass_us.size(), 2u);
    EXPECT_LT(first->part, 0.6);
    EXPECT_GT(first->part, 0);
    // A run that is asked for this part does the same.
    j.part = first->part;
    j.limit_s = 1000;
    const auto again = run_app(h, GetParam(), j);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->part, first->part);
}

TEST_P(EachApp, SaysThatMemoryIsShortAndLeavesTheHeapEmpty) {
    heap h = make_heap(16 * mib);
    job j = small();
    j.bytes = 64 * mib;
    const auto lacking = run_app(h, GetParam(), j);
    ASSERT_TRUE(lacking.ok()) << lacking.status();
    EXPECT_TRUE(absl::IsResourceExhausted(lacking->error)) << lacking->error;
    EXPECT_GT(lacking->nulls, 0u);
    EXPECT_TRUE(lacking->pass_us.empty());
    EXPECT_EQ(lacking->checked, 0u);
    const auto again = run_app(h, GetParam(), small());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->error.ok()) << again->error;
}

TEST_P(EachApp, RefusesTooFewBytesForItsThreads) {
    heap h = make_heap();
    job j = small();
    j.bytes = 256;
    EXPECT_TRUE(absl::IsInvalidArgument(run_app(h, GetParam(), j).status()));
    EXPECT_TRUE(run_app(h, GetParam(), small()).ok());
}

TEST_P(EachApp, MovesWhatItUsesToTheDevice) {
    options values;
    values.device = device_option::emulated;
    values.backing = backing_option::elastic;
    values.emulated_workers = 1;
    values.capacity = 4 << 20;
    values.host_budget = 32 << 20;
    values.move_unit = 2 << 20;
    absl::StatusOr<heap> h = heap::create(values);
    ASSERT_TRUE(h.ok()) << h.status();
    job j = small();
    j.passes = 3;
    j.bytes = 8 << 20;
    j.moves = true;
    const auto moved = run_app(*h, GetParam(), j);
    ASSERT_TRUE(moved.ok()) << moved.status();
    EXPECT_TRUE(moved->error.ok()) << moved->error;
    EXPECT_EQ(moved->wrong, 0u);
    EXPECT_GT(moved->moves_us, 0);
    EXPECT_LT(moved->resident_share(), 0.7);
    j.moves = false;
    const auto stays = run_app(*h, GetParam(), j);
    ASSERT_TRUE(stays.ok()) << stays.status();
    EXPECT_EQ(stays->moved_bytes(), 0u);
    EXPECT_EQ(stays->moves_us, 0);
}

TEST_P(EachApp, WithoutAUnitNothingMovesAndTheErrorSaysSo) {
    heap h = make_heap();
    job j = small();
    j.moves = true;
    EXPECT_TRUE(absl::IsFailedPrecondition(run_app(h, GetParam(), j).status()));
}

TEST(Apps, BfsHasExactlyOneRightLevelForAVertex) {
    heap h = make_heap();
    const auto bfs = apps::apps_named("bfs");
    ASSERT_TRUE(bfs.ok());
    job j = small();
    j.passes = 1;
    j.bytes = 128 << 10;  // 2,944 vertices
    j.samples = 1 << 20;
    for (const std::uint64_t vertex : {0, 1, 500, 2000}) {
        int right = 0;
        for (std::uint64_t level = 0; level < 12; ++level) {
            j.corrupt = apps::corruption{vertex, level, 0};
            const auto found = run_app(h, bfs->front(), j);
            ASSERT_TRUE(found.ok()) << found.status();
            right += found->wrong == 0 ? 1 : 0;
        }
        EXPECT_EQ(right, 1) << vertex;
    }
}

TEST(Apps, RunInMemoryOfBothTiers) {
    auto h = heap::create({.device = device_option::emulated,
                           .backing = backing_option::elastic,
                           .capacity = 8 * mib,
                           .host_budget = 64 * mib,
                           .decay = absl::ZeroDuration()});
    ASSERT_TRUE(h.ok()) << h.status();
    for (const app& a : apps::apps()) {
        job j = small();
        j.bytes = 16 * mib;
        j.passes = 1;
        j.accesses_of_piece = 0;
        const auto found = run_app(*h, a, j);
        ASSERT_TRUE(found.ok()) << a.name << ": " << found.status();
        EXPECT_TRUE(found->error.ok()) << a.name << ": " << found->error;
        EXPECT_GT(found->resident_share(), 0);
        EXPECT_LT(found->resident_share(), 0.6);
    }
}

TEST(Apps, OfAnyNumberOfThreads) {
    heap h = make_heap();
    for (const app& a : apps::apps()) {
        job j = small();
        j.threads = 77;
        j.seed = 5;
        const auto found = run_app(h, a, j);
        ASSERT_TRUE(found.ok()) << a.name << ": " << found.status();
        EXPECT_TRUE(found->error.ok()) << a.name << ": " << found->error;
    }
}

TEST(Apps, AreFoundByName) {
    EXPECT_EQ(apps::apps_named("all")->size(), 8u);
    EXPECT_EQ(apps::apps_named("gcn")->front().name, "gcn");
    EXPECT_THAT(std::string(apps::apps_named("x").status().message()), HasSubstr("b-plus-tree"));
}

TEST(Apps, RefuseAnImpossibleJob) {
    heap h = make_heap();
    for (job j : {job{.threads = 0}, job{.threads = 1ull << 40}, job{.passes = 0}, job{.part = 0}, job{.part = 2},
                  job{.limit_s = 0}, job{.samples = 0}}) {
        EXPECT_TRUE(absl::IsInvalidArgument(run_app(h, apps::apps().front(), j).status()));
    }
}

}  // namespace
}  // namespace orchard::test
