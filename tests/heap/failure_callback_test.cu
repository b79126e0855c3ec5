// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The times at which a heap calls the user's function for failed requests, and the requests that it reports.

#include <set>
#include <stdexcept>

#include "tests/support/failure_reports.hpp"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

class heap_on_failure : public heap_contract {
protected:
    /// Asks for one segment when all are taken.
    void fail() {
        const std::vector<block> all = allocate(std::vector<std::uint64_t>(heap_segments(), segments(1)), 1);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(all));
        EXPECT_EQ(allocate_one(segments(1)).address, 0u);
        free_all(all);
    }
    [[nodiscard]] std::uint64_t more_than_all() { return segments(heap_segments()) + 1; }
    void fail_as_too_large() { EXPECT_EQ(allocate_one(more_than_all()).address, 0u); }
};
INSTANTIATE_TEST_SUITE_P(all, heap_on_failure, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_on_failure, is_called_again_while_more_fail) {
    const failure_reports seen;
    EXPECT_TRUE(h().on_failure(seen.taker()).ok());
    ASSERT_NO_FATAL_FAILURE(fail());
    const std::vector<failure> first = seen.wait_for(1);
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(name_of(first[0].reason), name_of(failure_reason::out_of_memory_device_budget));
    EXPECT_EQ(first[0].bytes, segments(1));
    EXPECT_EQ(first[0].count, 1u);
    EXPECT_EQ(first[0].of_reason, 1u);
    ASSERT_NO_FATAL_FAILURE(fail());
    const std::vector<failure> both = seen.wait_for(2);
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(both[1].reason, first[0].reason);
    EXPECT_EQ(both[1].of_reason, 2u);
    EXPECT_GT(both[1].time_ns, first[0].time_ns) << "the newest, not the first one once more";
    EXPECT_TRUE(h().on_failure({}).ok());
    expect_empty();
}

TEST_P(heap_on_failure, survives_a_function_that_throws) {
    const failure_reports seen;
    ASSERT_TRUE(h().on_failure([&](const failure& f) {
                       seen.taker()(f);
                       throw std::runtime_error("the user's own");
                   })
                    .ok());
    fail_as_too_large();
    ASSERT_EQ(seen.wait_for(1).size(), 1u);
    ASSERT_NO_FATAL_FAILURE(fail());
    ASSERT_EQ(seen.wait_for(2).size(), 2u) << "the thread goes on";
    ASSERT_TRUE(h().on_failure({}).ok());  // waits for the thread
    EXPECT_EQ(h().stats()->callback_exceptions, 2u);
    expect_empty();
}

TEST_P(heap_on_failure, hears_of_each_reason_apart) {
    const failure_reports seen;
    EXPECT_TRUE(h().on_failure(seen.taker()).ok());
    fail_as_too_large();
    ASSERT_EQ(seen.wait_for(1).size(), 1u);
    ASSERT_NO_FATAL_FAILURE(fail());
    const std::vector<failure> both = seen.wait_for(2);
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(name_of(both[0].reason), name_of(failure_reason::too_large));
    EXPECT_EQ(both[0].bytes, more_than_all());
    EXPECT_EQ(both[0].count, 1u);
    EXPECT_EQ(name_of(both[1].reason), name_of(failure_reason::out_of_memory_device_budget));
    EXPECT_EQ(both[1].bytes, segments(1));
    EXPECT_EQ(both[1].count, 2u);
    EXPECT_EQ(both[1].of_reason, 1u);
    EXPECT_TRUE(h().on_failure({}).ok());
    expect_empty();
}

TEST_P(heap_on_failure, hears_of_what_failed_before) {
    ASSERT_NO_FATAL_FAILURE(fail());
    fail_as_too_large();
    const failure_reports seen;
    EXPECT_TRUE(h().on_failure(seen.taker()).ok());
    std::set<failure_reason> reasons;
    for (const failure& f : seen.wait_for(2)) {
        reasons.insert(f.reason);
        EXPECT_EQ(f.count, 2u);
    }
    EXPECT_EQ(reasons, (std::set{failure_reason::out_of_memory_device_budget, failure_reason::too_large}));
    remake(GetParam().values());  // ends the thread that would call
}

TEST_P(heap_on_failure, is_not_called_where_nothing_fails) {
    const failure_reports seen;
    EXPECT_TRUE(h().on_failure(seen.taker()).ok());
    free_all(allocate({64, 4096, segments(1)}));
    expect_empty();
    EXPECT_TRUE(h().on_failure({}).ok());
    EXPECT_TRUE(seen.wait_for(0).empty());
}

}  // namespace
}  // namespace orchard::test
