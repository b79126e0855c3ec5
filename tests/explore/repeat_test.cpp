// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A seed gives the same run on every machine and at any time.

#include <gtest/gtest.h>

#include "tests/explore/planted.hpp"
#include "tests/explore/report.hpp"
#include "tests/explore/runner.hpp"

namespace orchard::explore {
namespace {

using simt::explore::strategy;

class repeat : public testing::TestWithParam<scenario> {};

TEST_P(repeat, seeds_give_the_same_on_other_threads_and_in_another_order) {
    plan p;
    p.scenarios = {{&GetParam(), GetParam().size}};
    p.seeds = 12;
    p.threads = 1;
    const std::vector<tally> alone = run_plan(p);
    p.threads = 3;
    EXPECT_EQ(run_plan(p).front().digest(), alone.front().digest());
    // Backwards, on this thread.
    tally backwards;
    for (std::uint64_t seed = p.seeds; seed-- != 0;) {
        const strategy how = strategy_of(seed);
        backwards.add(seed, how, run_once(GetParam(), GetParam().size, *simt::explore::choices_of(how, seed)), 0);
    }
    EXPECT_EQ(backwards.digest(), alone.front().digest());
}

TEST_P(repeat, the_record_of_a_run_gives_the_run) {
    const auto choices = simt::explore::choices_of(strategy::uniform, 5);
    const simt::explore::verdict first = run_once(GetParam(), GetParam().size, *choices);
    const auto record = simt::explore::recorded_choices(choices->record());
    EXPECT_EQ(run_once(GetParam(), GetParam().size, *record).trace_hash, first.trace_hash);
    EXPECT_EQ(record->record(), choices->record());
}

TEST_P(repeat, keeping_the_trace_changes_nothing) {
    simt::explore::settings readable;
    readable.keep_trace = true;
    std::string one;
    std::string other;
    const simt::explore::verdict plain =
        run_once(GetParam(), GetParam().size, *simt::explore::choices_of(strategy::priority, 3));
    const simt::explore::verdict kept =
        run_once(GetParam(), GetParam().size, *simt::explore::choices_of(strategy::priority, 3), readable, &one);
    run_once(GetParam(), GetParam().size, *simt::explore::choices_of(strategy::priority, 3), readable, &other);
    EXPECT_EQ(kept.trace_hash, plain.trace_hash);
    EXPECT_TRUE(one == other) << "two timelines of one seed differ";
}

INSTANTIATE_TEST_SUITE_P(all, repeat, testing::ValuesIn(testing_support::real_scenarios()),
                         [](const auto& at) { return at.param.name; });

}  // namespace
}  // namespace orchard::explore
