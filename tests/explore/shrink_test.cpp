// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/shrink.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/explore/planted.hpp"
#include "tests/explore/report.hpp"

namespace orchard::explore {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::lost_update;
using testing_support::right;

finding first_finding() {
    plan p;
    p.scenarios = {{&lost_update, lost_update.size}};
    p.seeds = 100;
    return run_plan(p).front().findings().front();
}

std::vector<std::string> texts_of(const std::vector<scale>& scales) {
    std::vector<std::string> texts;
    for (const scale& s : scales) {
        texts.push_back(text_of(s));
    }
    return texts;
}

TEST(smaller_scales, are_one_step_smaller) {
    EXPECT_THAT(texts_of(smaller_scales({{{2, 1}}, 1})), ElementsAre("1 x 1", "2 x 1", "1+1 x 1"));
    EXPECT_THAT(texts_of(smaller_scales({{{1}, {1}}, 2})), ElementsAre("1,1 x 1", "1 x 2", "1 x 2"));
    EXPECT_THAT(texts_of(smaller_scales({{{1}}, 1})), ElementsAre());
}

TEST(smaller_scales, end) {
    scale s = lost_update.size;
    int steps = 0;
    for (std::vector<scale> smaller = smaller_scales(s); !smaller.empty(); smaller = smaller_scales(s)) {
        s = smaller.back();
        ASSERT_LT(++steps, 100);
    }
    EXPECT_EQ(text_of(s), "1 x 1");
}

TEST(shrink, finds_the_smallest_run_that_fails_alike) {
    const finding f = first_finding();
    const auto small = shrink({&lost_update, lost_update.size}, f.seed, f.how);
    ASSERT_TRUE(small);
    EXPECT_EQ(text_of(small->size), "2 x 1") << "two lanes and one operation are what it takes";
    EXPECT_EQ(small->result.violation, "1 of 2 were not counted");
    EXPECT_EQ(small->surprises, 1u);
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(small->record, [](auto chosen) { return chosen != 0; })),
              small->surprises);
    EXPECT_NE(small->record.back(), 0u);
    EXPECT_LE(small->result.points, small->points_of_seed);
    EXPECT_TRUE(small->timeline.ends_with(text_of(small->result) + "\n"));
}

TEST(shrink, what_it_gives_can_be_repeated) {
    const finding f = first_finding();
    const auto small = shrink({&lost_update, lost_update.size}, f.seed, f.how);
    ASSERT_TRUE(small);
    const auto seed = simt::explore::choices_of(small->how, small->seed);
    EXPECT_EQ(kind_of(run_once(lost_update, small->size, *seed).violation), f.kind);
    const auto record = simt::explore::recorded_choices(small->record);
    EXPECT_EQ(run_once(lost_update, small->size, *record).trace_hash, small->result.trace_hash);
    shrink_effort alone;
    alone.threads = 1;
    const auto again = shrink({&lost_update, lost_update.size}, f.seed, f.how, alone);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->timeline, small->timeline) << "it depends on the number of threads";
}

TEST(shrink, needs_a_violation) { EXPECT_FALSE(shrink({&right, right.size}, 3, simt::explore::strategy::uniform)); }

TEST(search_exhaustively, finds_what_one_surprise_shows) {
    const exhaustive_result r = search_exhaustively({&lost_update, {{{1}, {1}}, 1}}, 1, 1000);
    EXPECT_EQ(r.violation, "1 of 2 were not counted");
    EXPECT_THAT(r.timeline, HasSubstr("violation: 1 of 2 were not counted"));
    EXPECT_FALSE(r.finished);
}

TEST(search_exhaustively, says_when_it_has_seen_all) {
    const exhaustive_result calm = search_exhaustively({&lost_update, {{{1}, {1}}, 1}}, 0, 100'000);
    EXPECT_TRUE(calm.finished);
    EXPECT_EQ(calm.violation, "");
    EXPECT_GT(calm.runs, 1u);
    const exhaustive_result none = search_exhaustively({&right, {{{1}, {1}}, 1}}, 2, 100'000);
    EXPECT_TRUE(none.finished);
    EXPECT_EQ(none.violation, "");
    EXPECT_GT(none.runs, calm.runs);
}

TEST(search_exhaustively, gives_up_at_its_limit) {
    const exhaustive_result r = search_exhaustively({&right, right.size}, 3, 50);
    EXPECT_EQ(r.runs, 50u);
    EXPECT_FALSE(r.finished);
}

}  // namespace
}  // namespace orchard::explore
