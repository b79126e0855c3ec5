// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Twenty thousand seeds over the scenarios in which pages are allocated and freed while slabs come and go, ten
/// thousand over the others, and what makes them worth running.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tests/explore/planted.hpp"
#include "tests/explore/report.hpp"
#include "tests/explore/runner.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t seeds_of_pages = 20'000;
constexpr std::uint64_t seeds_of_others = 10'000;
constexpr std::array<std::string_view, 9> page_scenarios{"coalescing",  "double_free",  "exact_fit",
                                                         "large_pages", "last_segment", "page_claim",
                                                         "page_retire", "page_reuse",   "slab_turnover"};
constexpr std::uint64_t least_median_points = 300;
constexpr std::uint64_t least_distinct_percent = 95;

bool is_of_pages(const scenario& s) {
    return std::find(page_scenarios.begin(), page_scenarios.end(), s.name) != page_scenarios.end();
}

/// How many seeds of a scenario are run.
std::uint64_t seeds_of(const scenario& s) {
    const bool pages = is_of_pages(s);
    const std::vector<scenario> all = testing_support::real_scenarios();
    const auto alike = static_cast<std::uint64_t>(
        std::count_if(all.begin(), all.end(), [&](const scenario& other) { return is_of_pages(other) == pages; }));
    return ((pages ? seeds_of_pages : seeds_of_others) + alike - 1) / alike;
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

TEST(slow_seeds_of_pages, are_of_scenarios_that_there_are) {
    for (const std::string_view name : page_scenarios) {
        EXPECT_NE(find_scenario(std::string(name)), nullptr) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(all, slow_seeds, testing::ValuesIn(testing_support::real_scenarios()),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace orchard::explore
