// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Shards of unequal size: a request is too large only if no shard could ever hold it.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Only the first lane of warp `warp` allocates.
struct one_warp_asks {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint32_t warp;
    std::uint64_t* answer;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.global_thread() == std::uint64_t{warp} * simt::warp_size) {
            *answer = as_number(heap.malloc(bytes));
        }
    }
};

class heap_shards : public heap_contract {
protected:
    /// 100 segments: one shard has 64 of them, the other 36. Warps with an even number ask the first shard first.
    void use_two() {
        options o = GetParam().values();
        o.shards = 2;
        o.capacity = segments(100);
        remake(o);
        ASSERT_EQ(device::heap_view(h().ref().view()).segments_per_shard, 64u);
    }
    std::uint64_t ask(std::uint64_t bytes, std::uint32_t warp) {
        const auto answer = array<std::uint64_t>(1);
        launch({1, 64}, one_warp_asks{h().ref(), bytes, warp, answer.data()});
        return to_host(answer).front();
    }
    void expect_reason(failure_reason why, std::uint64_t bytes, std::uint32_t warp) {
        use_two();
        const std::vector<block> all = allocate(std::vector<std::uint64_t>(100, segments(1)), 1);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(all));
        EXPECT_EQ(ask(bytes, warp), 0u);
        ASSERT_TRUE(h().last_failure().has_value());
        EXPECT_EQ(name_of(h().last_failure()->reason), name_of(why)) << "warp " << warp;
        free_all(all);
        expect_empty();
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_shards, ::testing::Values(heap_cases()[0], heap_cases()[1], heap_cases()[5]),
                         case_name);

TEST_P(heap_shards, all_is_reserved_though_one_of_them_is_small) {
    use_two();
    EXPECT_TRUE(h().reserve(segments(100)).ok());
    EXPECT_EQ(h().stats()->committed_bytes, segments(100));
}

TEST_P(heap_shards, what_fits_one_of_them_is_not_too_large) {
    for (const std::uint32_t warp : {0u, 1u}) {
        ASSERT_NO_FATAL_FAILURE(expect_reason(failure_reason::out_of_memory_device_budget, segments(40), warp));
    }
}

TEST_P(heap_shards, what_fits_none_is_too_large) {
    for (const std::uint32_t warp : {0u, 1u}) {
        ASSERT_NO_FATAL_FAILURE(expect_reason(failure_reason::too_large, segments(65), warp));
    }
}

TEST_P(heap_shards, the_larger_one_serves_warps_of_the_other) {
    use_two();
    for (const std::uint32_t warp : {1u, 0u}) {
        const std::uint64_t p = ask(segments(60), warp);
        EXPECT_NE(p, 0u) << "warp " << warp;
        free_all({{p, segments(60)}});
    }
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
