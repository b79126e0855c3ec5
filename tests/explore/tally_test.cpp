// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/explore/tally.hpp"

#include <gtest/gtest.h>

namespace orchard::explore {
namespace {

using simt::explore::strategy;
using simt::explore::verdict;

verdict run_of(std::uint64_t points, std::uint64_t hash, std::string violation = {}) {
    verdict v;
    v.points = points;
    v.trace_hash = hash;
    v.violation = std::move(violation);
    return v;
}

TEST(kind_of, leaves_out_lanes_the_actor_and_numbers) {
    EXPECT_EQ(kind_of("b0.w1.l2: a block of 64 B at 0x7f00 is owned by b10.w0.l31"),
              "a block of # B at # is owned by a lane");
    EXPECT_EQ(kind_of("service: slot[3] is claimed"), kind_of("growth: slot[12] is claimed"));
    EXPECT_EQ(kind_of("mailbox 0: slot 3 is in use"), "mailbox #: slot # is in use");
}

TEST(kind_of, looks_at_the_first_line_and_keeps_the_actors_that_could_not_go_on) {
    EXPECT_EQ(kind_of("deadlock: no actor can go on\n  b0.w0.l0 waits"), "deadlock: no actor can go on");
    EXPECT_EQ(kind_of("livelock: no end after 200 operations\n  b0"), "livelock: no end after # operations");
}

TEST(kind_of, keeps_what_only_looks_like_a_lane) {
    EXPECT_EQ(kind_of("b0.w1 and b.w.l and xb0.w0.l0 and b0.w0.l0x"), "b#.w# and b.w.l and xb#.w#.l# and b#.w#.l#x");
    EXPECT_EQ(kind_of(""), "");
}

TEST(tally, counts_points) {
    tally t;
    EXPECT_EQ(t.least_points() + t.median_points() + t.most_points() + t.distinct(), 0u);
    for (std::uint64_t points : {9, 5, 7, 100, 6}) {
        t.add(points, strategy::uniform, run_of(points, points), 0.5);
    }
    EXPECT_EQ(t.runs(), 5u);
    EXPECT_EQ(t.least_points(), 5u);
    EXPECT_EQ(t.median_points(), 7u);
    EXPECT_EQ(t.most_points(), 100u);
    EXPECT_DOUBLE_EQ(t.seconds(), 2.5);
}

TEST(tally, counts_different_traces) {
    tally t;
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        t.add(seed, strategy::uniform, run_of(10, seed / 4), 0);
    }
    EXPECT_EQ(t.distinct(), 25u);
}

TEST(tally, digest_does_not_depend_on_the_order) {
    tally one;
    tally other;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        one.add(seed, strategy::uniform, run_of(seed, 3 * seed), 0);
        other.add(9 - seed, strategy::uniform, run_of(9 - seed, 3 * (9 - seed)), 0);
    }
    EXPECT_EQ(one.digest(), other.digest());
    EXPECT_EQ(digest_of({one, other}), digest_of({other, one}));
}

TEST(tally, digest_depends_on_seed_trace_points_strategy_and_verdict) {
    const auto digest = [](std::uint64_t seed, strategy how, const verdict& v) {
        tally t;
        t.add(seed, how, v, 0);
        return t.digest();
    };
    const std::uint64_t known = digest(1, strategy::uniform, run_of(2, 3));
    EXPECT_EQ(digest(1, strategy::uniform, run_of(2, 3)), known);
    EXPECT_NE(digest(2, strategy::uniform, run_of(2, 3)), known);
    EXPECT_NE(digest(1, strategy::priority, run_of(2, 3)), known);
    EXPECT_NE(digest(1, strategy::uniform, run_of(3, 3)), known);
    EXPECT_NE(digest(1, strategy::uniform, run_of(2, 4)), known);
    EXPECT_NE(digest(1, strategy::uniform, run_of(2, 3, "wrong")), known);
}

TEST(tally, keeps_the_lowest_seed_of_each_kind) {
    tally t;
    t.add(7, strategy::priority, run_of(1, 1, "b0.w0.l1: lost 3"), 0);
    t.add(4, strategy::uniform, run_of(1, 1, "b1.w0.l0: lost 5"), 0);
    t.add(9, strategy::priority, run_of(1, 1, "b1.w0.l0: lost 6"), 0);
    t.add(2, strategy::uniform, run_of(1, 1, "another"), 0);
    const std::vector<finding> found = t.findings();
    EXPECT_EQ(t.violations(), 4u);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].kind, "another");
    EXPECT_EQ(found[1].count, 3u);
    EXPECT_EQ(found[1].seed, 4u);
    EXPECT_EQ(found[1].how, strategy::uniform);
    EXPECT_EQ(found[1].text, "b1.w0.l0: lost 5");
}

}  // namespace
}  // namespace orchard::explore
