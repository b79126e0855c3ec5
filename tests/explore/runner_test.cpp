// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/runner.hpp"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/explore/planted.hpp"

namespace orchard::explore {
namespace {

using simt::explore::strategy;
using testing::HasSubstr;
using testing_support::lost_update;
using testing_support::right;

plan plan_of(const scenario& s, std::uint64_t seeds, unsigned threads) {
    plan p;
    p.scenarios = {{&s, s.size}};
    p.seeds = seeds;
    p.threads = threads;
    return p;
}

TEST(runner, even_seeds_are_uniform_and_odd_ones_by_priority) {
    EXPECT_EQ(strategy_of(4), strategy::uniform);
    EXPECT_EQ(strategy_of(5), strategy::priority);
    EXPECT_EQ(strategy_of(4, strategy::priority), strategy::priority);
}

TEST(runner, gives_the_same_whatever_the_number_of_threads) {
    const tally one = run_plan(plan_of(lost_update, 200, 1)).front();
    for (unsigned threads : {2u, 5u}) {
        const tally other = run_plan(plan_of(lost_update, 200, threads)).front();
        EXPECT_EQ(other.digest(), one.digest());
        EXPECT_EQ(other.runs(), 200u);
        EXPECT_EQ(other.violations(), one.violations());
        EXPECT_EQ(other.findings().front().seed, one.findings().front().seed);
    }
}

TEST(runner, other_seeds_give_another_digest) {
    plan p = plan_of(right, 50, 1);
    const std::uint64_t from_zero = run_plan(p).front().digest();
    p.first = 1;
    EXPECT_NE(run_plan(p).front().digest(), from_zero);
}

TEST(runner, a_finding_is_that_of_its_seed) {
    const tally t = run_plan(plan_of(lost_update, 100, 2)).front();
    ASSERT_NE(t.violations(), 0u);
    const finding f = t.findings().front();
    EXPECT_EQ(f.kind, "# of # were not counted");
    const auto choices = simt::explore::choices_of(f.how, f.seed);
    EXPECT_EQ(run_once(lost_update, lost_update.size, *choices).violation, f.text);
}

// A seed that exploring once reported although nothing was wrong: growth stands still at the end.
TEST(runner, slow_actors_are_no_violation) {
    const scenario* const s = find_scenario("blocked_commit_unzeroed");
    ASSERT_NE(s, nullptr);
    const auto choices = simt::explore::choices_of(strategy::priority, 20782000119ull);
    EXPECT_EQ(run_once(*s, s->size, *choices).violation, "");
}

TEST(runner, finds_nothing_where_nothing_is_wrong) {
    const tally t = run_plan(plan_of(right, 100, 2)).front();
    EXPECT_EQ(t.violations(), 0u);
    EXPECT_TRUE(t.findings().empty());
    EXPECT_GT(t.distinct(), 1u);
}

TEST(runner, limited_by_time_leaves_no_gaps) {
    plan p;
    p.scenarios = {{&right, right.size}, {&lost_update, lost_update.size}};
    p.threads = 3;
    p.time = std::chrono::duration<double>(0);
    const std::vector<tally> short_one = run_plan(p);
    ASSERT_GT(short_one[0].runs(), 0u);
    // The same seeds by number.
    p.time.reset();
    p.scenarios = {{&right, right.size}};
    p.seeds = short_one[0].runs();
    EXPECT_EQ(run_plan(p).front().digest(), short_one[0].digest());
}

TEST(runner, goes_round_over_scenarios) {
    plan p;
    p.scenarios = {{&right, right.size}, {&lost_update, {{{1}}, 1}}};
    p.seeds = 70;
    const std::vector<tally> all = run_plan(p);
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].runs(), 70u);
    EXPECT_EQ(all[1].runs(), 70u);
    EXPECT_EQ(all[1].violations(), 0u) << "one lane alone loses no update";
    EXPECT_TRUE(run_plan({}).empty());
}

TEST(runner, prepares_each_thread) {
    std::mutex guard;
    std::set<std::thread::id> prepared;
    plan p = plan_of(right, 10, 3);
    p.prepare_thread = [&] {
        const std::lock_guard lock(guard);
        prepared.insert(std::this_thread::get_id());
    };
    run_plan(p);
    EXPECT_EQ(prepared.size(), 3u);
    EXPECT_FALSE(prepared.contains(std::this_thread::get_id()));
}

TEST(runner, an_exception_is_a_violation) {
    const scenario throws{"throws", "", {{{1}}, 1}, [](world&) { throw std::runtime_error("of its own"); }};
    const auto choices = simt::explore::choices_of(strategy::uniform, 1);
    EXPECT_THAT(run_once(throws, throws.size, *choices).violation, HasSubstr("of its own"));
}

TEST(runner, a_crash_names_its_run) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    const scenario crashes{"crashes", "", {{{1}}, 1}, [](world&) { std::abort(); }};
    plan p = plan_of(crashes, 1, 1);
    p.first = 17;
    EXPECT_DEATH(run_plan(p), "crashed in: explore --scenario crashes --seed 17 --strategy priority\n");
}

TEST(runner, the_timeline_ends_with_the_verdict) {
    simt::explore::settings readable;
    readable.keep_trace = true;
    std::string timeline;
    const auto choices = simt::explore::choices_of(strategy::uniform, 2);
    const simt::explore::verdict v = run_once(right, right.size, *choices, readable, &timeline);
    EXPECT_THAT(timeline, testing::ContainsRegex("fetch_add relaxed device +counter"));
    EXPECT_TRUE(timeline.ends_with(absl::StrCat("\n", text_of(v), "\n")));
    EXPECT_TRUE(text_of(v).starts_with("ok: "));
}

}  // namespace
}  // namespace orchard::explore
