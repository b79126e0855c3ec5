// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Ten thousand seeds over all scenarios, and what makes them worth running.

#include <gtest/gtest.h>

#include "tests/explore/planted.hpp"
#include "tests/explore/report.hpp"
#include "tests/explore/runner.hpp"

namespace orchard::explore {
namespace {

constexpr std::uint64_t seeds_of_all = 10'000;
constexpr std::uint64_t least_median_points = 300;
constexpr std::uint64_t least_distinct_percent = 95;

class slow_seeds : public testing::TestWithParam<scenario> {};

TEST_P(slow_seeds, show_no_violation) {
    const scenario& s = GetParam();
    const std::uint64_t scenarios = testing_support::real_scenarios().size();
    plan p;
    p.scenarios = {{&s, s.size}};
    p.seeds = (seeds_of_all + scenarios - 1) / scenarios;
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

INSTANTIATE_TEST_SUITE_P(all, slow_seeds, testing::ValuesIn(testing_support::real_scenarios()),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace orchard::explore
