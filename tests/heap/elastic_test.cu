// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A heap that begins without memory: it grows within its budgets, reports why it cannot grow further, and releases
// memory.

#include "absl/time/clock.h"
#include "tests/support/elastic_fixture.hpp"

namespace orchard::test {
namespace {

class heap_elastic : public elastic_contract {
protected:
    void remake_with(std::uint64_t device, std::uint64_t host) { remake(values_of(device, host)); }
    statistics stats() {
        auto s = h().stats();
        EXPECT_TRUE(s.ok()) << s.status();
        return s.ok() ? *s : statistics{};
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_elastic, ::testing::ValuesIn(elastic_cases()), case_name);

TEST_P(heap_elastic, begins_with_nothing_and_grows_to_its_budget) {
    ASSERT_NO_FATAL_FAILURE(remake_with(21, 0));
    EXPECT_EQ(stats().committed_bytes, 0u);
    EXPECT_EQ(stats().range_bytes, segments(84));
    EXPECT_EQ(stats().capacity_bytes, segments(21));
    EXPECT_EQ(fill(), 21u) << "also what is left of the budget and is less than an extent";
    EXPECT_EQ(stats().committed_bytes, segments(21));
    EXPECT_EQ(stats().host_bytes, 0u);
    ASSERT_TRUE(h().last_failure().has_value());
    EXPECT_EQ(h().last_failure()->reason, failure_reason::out_of_memory_device_budget);
    const memory_levels expected{segments(21), segments(21), 0, segments(21), 0};
    EXPECT_EQ(h().last_failure()->now, expected);
}

TEST_P(heap_elastic, trim_gives_back_more_extents_than_can_be_under_way_at_once) {
    ASSERT_NO_FATAL_FAILURE(remake_with(400, 0));
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(fill(), 400u);
        empty();
        EXPECT_TRUE(h().trim().ok());
        EXPECT_EQ(stats().committed_bytes, 0u);
    }
}

TEST_P(heap_elastic, spills_to_the_host_once_the_device_budget_is_spent) {
    ASSERT_NO_FATAL_FAILURE(remake_with(8, 6));
    EXPECT_EQ(fill(), 14u);
    EXPECT_EQ(stats().committed_bytes, segments(14));
    EXPECT_EQ(stats().host_bytes, segments(6));
    EXPECT_EQ(h().last_failure()->reason, failure_reason::out_of_memory_host_budget);
    EXPECT_TRUE(h().validate().ok()) << h().validate();
    empty();
    EXPECT_EQ(fill(), 14u) << "all of it is free again";
}

TEST_P(heap_elastic, gives_everything_back_when_it_is_trimmed) {
    ASSERT_NO_FATAL_FAILURE(remake_with(16, 4));
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(fill(), 20u);
        EXPECT_TRUE(h().trim().ok()) << "nothing of it is unused";
        EXPECT_EQ(stats().committed_bytes, segments(20));
        empty();
        EXPECT_TRUE(h().trim().ok());
        EXPECT_EQ(stats().committed_bytes, 0u);
        EXPECT_EQ(stats().host_bytes, 0u);
    }
    EXPECT_EQ(stats().peak_committed_bytes, segments(20));
    EXPECT_EQ(stats().released_bytes, segments(60));
}

TEST_P(heap_elastic, keeps_to_a_budget_that_changes) {
    ASSERT_NO_FATAL_FAILURE(remake_with(16, 0));
    EXPECT_TRUE(absl::IsOutOfRange(h().set_device_budget(segments(17))));
    EXPECT_TRUE(absl::IsOutOfRange(h().set_device_budget(segments(1) - 1)));
    ASSERT_TRUE(h().reserve(segments(12)).ok());
    ASSERT_TRUE(h().set_device_budget(segments(8)).ok());
    EXPECT_EQ(stats().committed_bytes, 0u) << "memory without blocks is released";
    EXPECT_EQ(fill(), 8u);
    EXPECT_EQ(h().last_failure()->now.device_budget, segments(8));
    ASSERT_TRUE(h().set_device_budget(segments(4)).ok());
    EXPECT_EQ(stats().committed_bytes, segments(8)) << "blocks stay";
    empty();
    ASSERT_TRUE(h().trim().ok());
    EXPECT_EQ(fill(), 4u);
    empty();
    ASSERT_TRUE(h().set_device_budget(segments(16)).ok());
    EXPECT_EQ(fill(), 16u) << "a failure for want of the old budget is forgotten";
    empty();
    // Beyond the device's budget, memory comes from the host.
    ASSERT_NO_FATAL_FAILURE(remake_with(8, 6));
    ASSERT_TRUE(h().set_device_budget(segments(2)).ok());
    EXPECT_EQ(fill(), 8u);
    EXPECT_EQ(stats().host_bytes, segments(6));
    empty();
}

TEST_P(heap_elastic, keeps_what_is_in_use_when_it_is_trimmed) {
    const std::vector<block> all = allocate({segments(1), 100, segments(3), 5000, segments(2)}, 1);
    ASSERT_NO_FATAL_FAILURE(stamp(all));
    free_all({all[2]});
    ASSERT_TRUE(h().trim().ok());
    const std::uint64_t committed = stats().committed_bytes;
    EXPECT_GE(committed, segments(5)) << "a slab for each of two classes, and three segments";
    const std::vector<block> others = allocate({segments(2), 100, segments(3), 5000}, 1);
    ASSERT_NO_FATAL_FAILURE(
        expect_disjoint({all[0], all[1], all[3], all[4], others[0], others[1], others[2], others[3]}));
    free_all({all[0], all[1], all[3], all[4]});
    free_all(others);
}

TEST_P(heap_elastic, commits_ahead_what_is_reserved) {
    ASSERT_NO_FATAL_FAILURE(remake_with(20, 10));
    EXPECT_TRUE(h().reserve(segments(9) - 5).ok());
    EXPECT_GE(stats().committed_bytes, segments(9));
    EXPECT_LE(stats().committed_bytes, segments(10));
    EXPECT_TRUE(h().reserve(segments(3)).ok()) << "that much is committed already";
    EXPECT_TRUE(h().reserve(segments(30)).ok());
    EXPECT_EQ(stats().committed_bytes, segments(30));
    EXPECT_EQ(stats().host_bytes, segments(10));
    const absl::Status refused = h().reserve(segments(30) + 1);
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_EQ(stats().segments_granted, 0u);
}

TEST_P(heap_elastic, gives_back_what_is_no_longer_asked_for) {
    options values = GetParam().values();
    values.decay = absl::Milliseconds(30);
    values.commit_ahead = 0;
    values.cached_segments = 0;
    ASSERT_NO_FATAL_FAILURE(remake(values));
    EXPECT_TRUE(h().reserve(segments(20)).ok());
    for (int i = 0; i < 1000 && stats().committed_bytes != 0; ++i) {
        absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_EQ(stats().committed_bytes, 0u);
    EXPECT_GT(fill(), 10u);
}

// Released memory leaves a gap between other extents that is too short for the next request.
TEST_P(heap_elastic, commits_in_one_piece_what_is_asked_for_so) {
    for (const bool by_host : {false, true}) {
        options values = values_of(8, 0);
        values.range = segments(64);
        values.extent = values.max_extent = segments(1);
        ASSERT_NO_FATAL_FAILURE(remake(values));
        const std::vector<block> all = allocate({segments(1), segments(1), segments(1)}, 1);
        const auto in_middle = std::ranges::find(all, as_number(h().ref().view().base) + segments(1), &block::address);
        ASSERT_NE(in_middle, all.end());
        free_all({*in_middle});
        ASSERT_TRUE(h().trim().ok());
        ASSERT_EQ(stats().committed_bytes, segments(2));
        if (by_host) {
            const auto p = h().allocate_on_host(segments(6));
            EXPECT_TRUE(p.ok()) << p.status();
            EXPECT_TRUE(h().free_on_host(p.value_or(nullptr)).ok());
        } else {
            const block large = allocate_one(segments(6));
            EXPECT_NE(large.address, 0u);
            free_all({large});
        }
        EXPECT_FALSE(h().last_failure().has_value());
    }
}

TEST_P(heap_elastic, a_request_beyond_both_budgets_is_too_large) {
    ASSERT_NO_FATAL_FAILURE(remake_with(8, 4));
    EXPECT_EQ(allocate_one(segments(12) + 1).address, 0u);
    EXPECT_EQ(h().last_failure()->reason, failure_reason::too_large);
    const block whole = allocate_one(segments(12));
    EXPECT_NE(whole.address, 0u) << "partly on the device, partly on the host";
    free_all({whole});
}

}  // namespace
}  // namespace orchard::test
