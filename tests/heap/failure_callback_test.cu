// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// What a heap tells its user's function of requests that fail.

#include <condition_variable>
#include <mutex>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// What was reported, for who waits for it.
class reports {
public:
    void add(const failure& f) {
        const std::scoped_lock lock(mutex_);
        all_.push_back(f);
        came_.notify_all();
    }
    /// Waits until there are so many.
    std::vector<failure> wait_for(std::size_t n) {
        std::unique_lock lock(mutex_);
        came_.wait_for(lock, std::chrono::seconds(60), [&] { return all_.size() >= n; });
        return all_;
    }

private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::vector<failure> all_;
};

class heap_on_failure : public heap_contract {
protected:
    /// Asks for more than there is.
    void fail() {
        const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(heap_segments() + 1, segments(1)), 1);
        free_all(blocks);
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_on_failure, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_on_failure, is_called_with_reason_and_numbers_and_again_while_more_fail) {
    reports seen;
    h().on_failure([&](const failure& f) { seen.add(f); });
    fail();
    const std::vector<failure> first = seen.wait_for(1);
    ASSERT_GE(first.size(), 1u);
    EXPECT_EQ(first[0].bytes, segments(1));
    EXPECT_NE(first[0].reason, failure_reason::none);
    EXPECT_GE(first[0].count, 1u);
    EXPECT_NE(first[0].now, memory_levels{});
    const std::uint64_t before = seen.wait_for(1).back().count;
    fail();
    const std::vector<failure> both = seen.wait_for(2);
    ASSERT_GE(both.size(), 2u);
    EXPECT_GT(both.back().count, before);
    h().on_failure({});
    expect_empty();
}

TEST_P(heap_on_failure, hears_of_what_failed_before) {
    fail();
    reports seen;
    h().on_failure([&](const failure& f) { seen.add(f); });
    EXPECT_EQ(seen.wait_for(1).size(), 1u);
    remake(GetParam().values());  // ends the thread that would call
}

TEST_P(heap_on_failure, is_not_called_where_nothing_fails) {
    reports seen;
    h().on_failure([&](const failure& f) { seen.add(f); });
    free_all(allocate({64, 4096, segments(1)}));
    expect_empty();
    h().on_failure({});
    EXPECT_TRUE(seen.wait_for(0).empty());
}

}  // namespace
}  // namespace orchard::test
