// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The reports of failed requests to the host: their order and reasons, and the memory levels, on heaps in a known
// state.

#include <thread>

#include "tests/support/elastic_fixture.hpp"
#include "tests/support/failure_reports.hpp"

namespace orchard::test {
namespace {

/// Every thread makes `rounds` requests for more memory than the heap has; each thread's size is different.
struct ask_too_much {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint32_t rounds;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint32_t i = 0; i < rounds; ++i) {
            (void)heap.malloc(bytes + at.global_thread());
        }
    }
};

class heap_failures : public elastic_contract {
protected:
    /// A heap of 12 segments on the device and 4 on the host.
    void remake_known() { remake(values_of(12, 4)); }
    /// Allocates the whole heap, in blocks of a segment, and returns them by address.
    std::vector<block> take_all() {
        std::vector<block> all = allocate(std::vector<std::uint64_t>(16, segments(1)), 1);
        expect_disjoint(all);
        std::sort(all.begin(), all.end(), [](const block& a, const block& b) { return a.address < b.address; });
        return all;
    }
    static void expect_failure(const failure& f, failure_reason why, std::uint64_t bytes) {
        EXPECT_EQ(name_of(f.reason), name_of(why));
        EXPECT_EQ(f.bytes, bytes);
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_failures, ::testing::ValuesIn(elastic_cases()), case_name);

TEST_P(heap_failures, say_what_the_heap_holds) {
    remake_known();
    const failure_reports seen;
    EXPECT_TRUE(h().on_failure(seen.taker()).ok());
    const std::vector<block> all = take_all();
    // A piece of three and one of two, with a block between them.
    const std::vector<block> freed(all.begin() + 4, all.begin() + 7);
    const std::vector<block> others(all.begin() + 8, all.begin() + 10);
    free_all(freed);
    free_all(others);
    EXPECT_EQ(allocate_one(segments(4)).address, 0u);
    const memory_levels fragmented{segments(11), segments(16), segments(3), segments(12), segments(4)};
    ASSERT_TRUE(h().last_failure().has_value());
    expect_failure(*h().last_failure(), failure_reason::fragmented, segments(4));
    EXPECT_EQ(h().last_failure()->now, fragmented);

    const std::vector<failure> one = seen.wait_for(1);
    ASSERT_EQ(one.size(), 1u);
    expect_failure(one[0], failure_reason::fragmented, segments(4));
    EXPECT_EQ(one[0].size_class, chunk_class);
    EXPECT_EQ(one[0].now, fragmented);

    EXPECT_EQ(allocate_one(segments(6)).address, 0u);
    const std::vector<failure> both = seen.wait_for(2);
    ASSERT_EQ(both.size(), 2u);
    expect_failure(both[1], failure_reason::out_of_memory_host_budget, segments(6));
    EXPECT_EQ(both[1].now, fragmented);
    EXPECT_TRUE(h().on_failure({}).ok());
    // The levels are the current ones, not those of the failure.
    const block b = allocate_one(segments(3));
    EXPECT_NE(b.address, 0u);
    const memory_levels later{segments(14), segments(16), segments(2), segments(12), segments(4)};
    EXPECT_EQ(h().last_failure()->now, later);
}

TEST_P(heap_failures, are_known_by_the_newest_of_each_reason_and_the_first) {
    remake_known();
    EXPECT_TRUE(h().failures().empty());
    EXPECT_EQ(h().first_failure(), std::nullopt);
    const std::uint64_t too_much = segments(17);
    EXPECT_EQ(allocate_one(too_much).address, 0u);
    const std::vector<block> all = take_all();
    EXPECT_EQ(allocate_one(segments(1)).address, 0u);
    EXPECT_EQ(allocate_one(5000).address, 0u);
    EXPECT_EQ(allocate_one(too_much + 5).address, 0u);
    const std::vector<failure> newest = h().failures();
    ASSERT_EQ(newest.size(), 2u);
    expect_failure(newest[0], failure_reason::too_large, too_much + 5);
    EXPECT_EQ(newest[0].of_reason, 2u);
    expect_failure(newest[1], failure_reason::out_of_memory_host_budget, 5000);
    EXPECT_EQ(newest[1].size_class, class_of(5000));
    EXPECT_EQ(newest[1].of_reason, 2u);
    EXPECT_EQ(newest[1].count, 4u);
    EXPECT_EQ(h().last_failure(), newest[0]);
    ASSERT_TRUE(h().first_failure().has_value());
    expect_failure(*h().first_failure(), failure_reason::too_large, too_much);
    EXPECT_EQ(h().first_failure()->count, 4u);
    // A later failure is recorded anew.
    EXPECT_EQ(allocate_one(segments(2)).address, 0u);
    expect_failure(*h().last_failure(), failure_reason::out_of_memory_host_budget, segments(2));
}

TEST_P(heap_failures, of_many_threads_at_once_are_all_counted_and_one_is_told_of) {
    const simt::grid shape{64, 96};
    constexpr std::uint64_t bytes = std::uint64_t{1} << 62;  // the request does not reach a service
    const auto is_one_of_them = [&](const failure& f) {
        return f.reason == failure_reason::too_large &&
               f.bytes == bytes + std::uint64_t{f.block} * shape.threads_per_block + f.thread;
    };
    constexpr std::uint32_t rounds = 20;
    simt::launch_result result;
    std::uint32_t wrong = 0;
    {
        simt::host_word<std::uint32_t> ended{0};
        ASSERT_TRUE(h().preload<ask_too_much>().ok());
        const std::jthread kernel([&] {
            result = simt::launch(h().executor(), shape, ask_too_much{h().ref(), bytes, rounds});
            ended.store<simt::order::release>(1);  // pairs with the load below
        });
        while (ended.load<simt::order::acquire>() == 0) {
            const std::optional<failure> f = h().last_failure();
            wrong += f && !is_one_of_them(*f) ? 1 : 0;
        }
    }
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_EQ(wrong, 0u) << "records of two failures";
    ASSERT_TRUE(h().last_failure().has_value());
    EXPECT_TRUE(is_one_of_them(*h().last_failure()));
    EXPECT_TRUE(is_one_of_them(*h().first_failure()));
    EXPECT_EQ(h().last_failure()->count, std::uint64_t{shape.blocks} * shape.threads_per_block * rounds);
    EXPECT_EQ(h().last_failure()->of_reason, h().last_failure()->count);
}

}  // namespace
}  // namespace orchard::test
