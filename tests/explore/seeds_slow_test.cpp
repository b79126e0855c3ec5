// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Twenty thousand seeds over the scenarios in which pages are allocated and freed while slabs are created and retired,
/// ten thousand over those of chunks and portions, and ten thousand over all other scenarios, with checks that the runs
/// are worthwhile.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tests/explore/planted.hpp"
#include "tests/explore/report.hpp"
#include "tests/explore/runner.hpp"

namespace orchard::explore {
namespace {

/// Scenarios of one kind, and how many seeds they share.
struct family {
    std::uint64_t seeds;
    std::vector<std::string_view> names;
};
const std::array<family, 2> families{{
    {20'000,
     {"coalescing", "double_free", "exact_fit", "large_pages", "last_segment", "page_claim", "page_retire",
      "page_reuse", "slab_turnover"}},
    {10'000, {"arrays", "chunks", "padded_portions", "portions", "stale_frees"}},
}};
constexpr std::uint64_t seeds_of_others = 10'000;
constexpr std::uint64_t least_median_points = 300;
constexpr std::uint64_t least_distinct_percent = 95;

/// Returns the number of seeds to run of a scenario.
std::uint64_t seeds_of(const scenario& s) {
    std::uint64_t others = testing_support::real_scenarios().size();
    for (const family& f : families) {
        if (std::find(f.names.begin(), f.names.end(), s.name) != f.names.end()) {
            return (f.seeds + f.names.size() - 1) / f.names.size();
        }
        others -= f.names.size();
    }
    return (seeds_of_others + others - 1) / others;
}

class slow_seeds : public testing::TestWithParam<scenario> {};

TEST_P(slow_seeds, show_no_violation) {
    const scenario& s = GetParam();
    plan p;
    p.scenarios = {{&s, s.size}};
    p.seeds = seeds_of(s);
    const std::vector<tally> all = run_plan(p);
    const tally& t = all.front();
    EXPECT_EQ(t.runs(), p.seeds);
    EXPECT_EQ(t.violations(), 0u) << text_of(p, all, t.seconds());
    EXPECT_GE(t.median_points(), least_median_points);
    EXPECT_GE(100 * t.distinct(), least_distinct_percent * t.runs()) << t.distinct() << " of " << t.runs();
}

TEST_P(slow_seeds, are_of_several_warps_and_blocks) {
    std::size_t warps = 0;
    for (const simt::explore::block_shape& block : GetParam().size.blocks) {
        warps += block.size();
    }
    EXPECT_GE(GetParam().size.blocks.size(), 2u);
    EXPECT_GE(warps, 3u);
}

TEST(slow_seeds_of_families, are_of_scenarios_that_there_are) {
    for (const family& f : families) {
        for (const std::string_view name : f.names) {
            EXPECT_NE(find_scenario(std::string(name)), nullptr) << name;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(all, slow_seeds, testing::ValuesIn(testing_support::real_scenarios()),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace orchard::explore
