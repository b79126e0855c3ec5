// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The applications: right results, and the same trace each time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "profiling/uvm/applications/application.hpp"
#include "tests/uvm_trace/traces.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard::applications {

void PrintTo(const application& a, std::ostream* out) { *out << a.name; }

}  // namespace orchard::applications

namespace orchard::test {
namespace {

using applications::addresses;
using applications::application;
using applications::parameters;
using uvm_model::access_kind;
using uvm_model::trace;

class EachApplication : public ::testing::TestWithParam<application> {
protected:
    /// Returns the accesses that the application recorded; the test fails if its result was wrong.
    static std::vector<steps_of_warp> run(const parameters& p) {
        const absl::StatusOr<trace> t = GetParam().run(p);
        EXPECT_TRUE(t.ok()) << t.status();
        return t.ok() ? all_of(*t->source()) : std::vector<steps_of_warp>{};
    }
};
INSTANTIATE_TEST_SUITE_P(All, EachApplication, ::testing::ValuesIn(applications::applications()), [](const auto& of) {
    std::string name(of.param.name);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

TEST_P(EachApplication, ComputesWhatIsRightAndLeavesATrace) {
    const absl::StatusOr<trace> t = GetParam().run({});
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ(t->header().warps, 8u);
    EXPECT_GT(t->header().accesses, 10'000u);
    EXPECT_EQ(t->header().space_bytes % segment_bytes, 0u);
    std::array<std::uint64_t, 3> kinds{};
    for (const steps_of_warp& steps : all_of(*t->source())) {
        EXPECT_FALSE(steps.empty());
        for (const auto& step : steps) {
            for (const uvm_model::access& a : step) {
                ++kinds[static_cast<std::size_t>(a.kind)];
            }
        }
    }
    EXPECT_GT(kinds[0], kinds[1]);
    EXPECT_GT(kinds[1] + kinds[2], 0u);
    const bool counts = GetParam().name == "k-means" || GetParam().name == "bfs";
    EXPECT_EQ(kinds[2] != 0, counts);
    RecordProperty("accesses", std::to_string(t->header().accesses));
    RecordProperty("bytes_per_access", std::to_string(static_cast<double>(t->encoded().size()) /
                                                      static_cast<double>(t->header().accesses)));
}

TEST_P(EachApplication, IsTheSameEachTimeInAnyLayout) {
    for (const layout how : {layout::linear(), layout::interleaved(tile::b16), layout::interleaved(tile::k64)}) {
        parameters p;
        p.threads = 64;
        p.how = how;
        const auto first = run(p);
        EXPECT_EQ(run(p), first);
    }
}

TEST_P(EachApplication, DoesTheSameInAnyLayoutAtOtherAddresses) {
    parameters p;
    p.threads = 64;
    const auto linear = run(p);
    p.how = layout::interleaved(tile::k4);
    p.order = lane_order::prefetch_first;
    p.portions = portion_policy::padded;
    const auto tiles = run(p);
    ASSERT_EQ(tiles.size(), linear.size());
    EXPECT_NE(tiles, linear);
    for (std::size_t w = 0; w < tiles.size(); ++w) {
        ASSERT_EQ(tiles[w].size(), linear[w].size());
        for (std::size_t i = 0; i < tiles[w].size(); ++i) {
            ASSERT_TRUE(std::equal(tiles[w][i].begin(), tiles[w][i].end(), linear[w][i].begin(), linear[w][i].end(),
                                   [](const auto& a, const auto& b) { return a.lane == b.lane && a.kind == b.kind; }));
        }
    }
}

TEST_P(EachApplication, HasTheAddressesOfItsHeapToo) {
    parameters p;
    p.threads = 64;
    p.how = layout::interleaved(tile::k4);
    const auto in_order = run(p);
    p.which = addresses::of_heap;
    const auto of_heap = run(p);
    ASSERT_EQ(of_heap.size(), in_order.size());
    for (std::size_t w = 0; w < of_heap.size(); ++w) {
        ASSERT_EQ(of_heap[w].size(), in_order[w].size());
        for (std::size_t i = 0; i < of_heap[w].size(); ++i) {
            for (std::size_t k = 0; k < of_heap[w][i].size(); ++k) {
                // The beginning of a chunk may differ; offsets within 64 KiB of it must not.
                ASSERT_EQ(of_heap[w][i][k].address % big_page_bytes, in_order[w][i][k].address % big_page_bytes);
            }
        }
    }
}

TEST_P(EachApplication, RunsWithRaggedWarpsAndAtALargerScale) {
    parameters p;
    p.threads = 77;
    p.seed = 5;
    p.how = layout::interleaved(tile::b4);
    const auto small = run(p);
    p.scale = 3;
    const auto large = run(p);
    const auto accesses = [](const std::vector<steps_of_warp>& all) {
        std::uint64_t count = 0;
        for (const steps_of_warp& steps : all) {
            for (const auto& step : steps) {
                count += step.size();
            }
        }
        return count;
    };
    EXPECT_GT(accesses(large), accesses(small));
    EXPECT_FALSE(run({.threads = 3}).empty());
}

TEST_P(EachApplication, RefusesWhatCannotBe) {
    for (const parameters& p : {parameters{.threads = 0}, parameters{.scale = 0}, parameters{.threads = 1ull << 40},
                                parameters{.scale = 1ull << 40}, parameters{.how = layout::automatic()}}) {
        EXPECT_EQ(GetParam().run(p).status().code(), absl::StatusCode::kInvalidArgument);
    }
}

TEST(Applications, AreFoundByName) {
    EXPECT_EQ(applications::applications().size(), 8u);
    EXPECT_EQ(applications::application_named("gcn")->name, "gcn");
    EXPECT_THAT(std::string(applications::application_named("x").status().message()),
                ::testing::HasSubstr("b-plus-tree"));
}

}  // namespace
}  // namespace orchard::test
