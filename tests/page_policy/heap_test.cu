// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A heap of each published algorithm, through its view: `get_page` and `free_page`, the faults of published code
// (listed in random_walk/faults_test.cu), and the promises of `published_heaps`. The contract: tests/contract_policies.

#include <atomic>

#include "tests/page_policy/policy_fixture.hpp"
#include "tests/simt/run_emulated.hpp"

namespace orchard::test {
namespace {

INSTANTIATE_TEST_SUITE_P(all, policy_heap,
                         ::testing::Combine(both_devices(),
                                            ::testing::Values(page_policy::rw, page_policy::rw_bm32,
                                                              page_policy::rw_bm64, page_policy::corw,
                                                              page_policy::corw_locked, page_policy::rw_malloc)),
                         policy_name);

constexpr std::uint32_t page = 8192;          // one unit under rw_malloc
constexpr std::uint64_t pages_of_slab = 256;  // of that size

TEST_P(policy_heap, tells_its_algorithm) { EXPECT_EQ(published_heaps::view(*heap_).policy, policy()); }

TEST_P(policy_heap, get_page_and_free_page) {
    auto blocks = array<void*>(500);
    get(blocks, page - 100);
    EXPECT_EQ(different(to_host(blocks), page), 500u);
    const statistics s = stats();
    EXPECT_EQ(s.pages_in_use, 500u);
    EXPECT_EQ(s.allocations, 500u);
    EXPECT_EQ(s.allocated_bytes, std::uint64_t{500} * page);
    const absl::StatusOr<heap_map> map = heap_->map();
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(difference(*map), "");
    EXPECT_EQ(map->policy, device::name_of(policy()));
    free(blocks);
    EXPECT_EQ(stats().pages_in_use, 0u);
    EXPECT_EQ(stats().frees, 500u);
    EXPECT_EQ(stats().invalid_frees, 0u);
    EXPECT_EQ(heap_->last_failure(), std::nullopt);
}

TEST_P(policy_heap, get_page_of_nothing_and_of_too_much) {
    auto blocks = array<void*>(33);
    get(blocks, 0);
    EXPECT_EQ(different(to_host(blocks), 1), 0u);
    EXPECT_EQ(heap_->last_failure(), std::nullopt);
    get(blocks, largest_page_bytes + 1);
    EXPECT_EQ(different(to_host(blocks), 1), 0u);
    ASSERT_TRUE(heap_->last_failure().has_value());
    EXPECT_EQ(heap_->last_failure()->reason, failure_reason::too_large);
    EXPECT_EQ(heap_->last_failure()->count, 33u);
    EXPECT_EQ(stats().allocations, 0u);
}

TEST_P(policy_heap, a_slab_is_used_up_before_the_next_is_taken) {
    if (runs()) {
        // If one of several words of a run cannot be claimed, the others are returned.
        GTEST_SKIP() << "not promised";
    }
    for (int round = 0; round < 20; ++round) {
        make(4, page);
        auto blocks = array<void*>(pages_of_slab);
        get(blocks, page);
        ASSERT_EQ(different(to_host(blocks), page), pages_of_slab);
        ASSERT_EQ(stats().slabs_published, 1u);
    }
}

TEST_P(policy_heap, a_full_heap_gives_null_and_says_why) {
    auto blocks = array<void*>(4 * pages_of_slab + 50);
    get(blocks, page);
    EXPECT_EQ(different(to_host(blocks), page), 4 * pages_of_slab);
    ASSERT_TRUE(heap_->last_failure().has_value());
    EXPECT_EQ(name_of(heap_->last_failure()->reason), name_of(failure_reason::out_of_memory_device_budget));
    EXPECT_EQ(heap_->last_failure()->bytes, page);
    EXPECT_EQ(heap_->last_failure()->size_class, class_of(page));
    EXPECT_EQ(stats().failed_allocations, 50u);
    EXPECT_EQ(stats().pages_in_use, 4 * pages_of_slab);
    free(blocks);
    EXPECT_EQ(stats().pages_in_use, 0u);
    get(blocks, page);
    EXPECT_EQ(different(to_host(blocks), page), 4 * pages_of_slab);
}

// A lane that writes back its copy of a word makes a page taken again that was freed meanwhile.
TEST_P(policy_heap, a_page_freed_while_others_are_taken_is_not_lost) {
    constexpr std::uint32_t rounds = 4;
    constexpr std::uint64_t threads = 192;
    for (int round = 0; round < 10; ++round) {
        auto held = array<void*>(threads * rounds);
        auto got = array<void*>(threads * rounds);
        get(held, page);
        ASSERT_EQ(different(to_host(held), page), threads * rounds);
        visit([&](auto ref) {
            launch(threads, free_beside_gets<decltype(ref)>{ref, page, held.data(), got.data(), threads, rounds});
        });
        // The blocks of both are disjoint, and all remaining memory can still be allocated.
        std::vector<void*> all = to_host(held);
        const std::vector<void*> others = to_host(got);
        all.insert(all.end(), others.begin(), others.end());
        const std::size_t in_use = different(all, page);
        ASSERT_EQ(stats().pages_in_use, in_use);
        auto rest = array<void*>(4 * pages_of_slab - in_use);
        get(rest, page);
        ASSERT_EQ(different(to_host(rest), page), rest.size());
        free(rest);
        free(got);
        free(held);
        ASSERT_EQ(stats().pages_in_use, 0u);
    }
}

TEST_P(policy_heap, trim_gives_all_slabs_back) {
    auto blocks = array<void*>(3 * pages_of_slab);
    get(blocks, page);
    EXPECT_EQ(stats().slabs_in_use, 3u);
    free(blocks);
    ASSERT_TRUE(heap_->trim().ok());
    EXPECT_EQ(stats().slabs_in_use, 0u);
    EXPECT_EQ(stats().segments_granted, 0u);
}

TEST_P(policy_heap, a_lock_that_is_held_for_ever_does_not_block_the_pages_and_is_found) {
    if (policy() != page_policy::corw_locked || std::get<0>(GetParam()) != device_option::emulated) {
        GTEST_SKIP() << "the LockMap, by the host's hand";
    }
    auto* locks = published_heaps::view(*heap_).locks;
    for (std::uint32_t segment = 0; segment < 4; ++segment) {
        locks[segment * device::lock_words].fetch_or<simt::order::relaxed>(0xf);
    }
    auto blocks = array<void*>(4 * pages_of_slab);
    get(blocks, page);
    EXPECT_EQ(different(to_host(blocks), page), 4 * pages_of_slab);
    EXPECT_EQ(heap_->validate().code(), absl::StatusCode::kInternal);
    for (std::uint32_t segment = 0; segment < 4; ++segment) {
        locks[segment * device::lock_words].store<simt::order::relaxed>(0);
    }
}

TEST(published_heaps, refuse_a_unit_and_a_size_that_are_not_possible) {
    options o;
    o.device = device_option::emulated;
    o.capacity = 4 * mib;
    for (const std::uint64_t unit : {0u, 8u, 48u, 16384u}) {
        const auto refused = published_heaps::create(o, {page_policy::rw_malloc, unit});
        EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(refused.status().message(),
                  "unit: " + std::to_string(unit) + " is not possible; give a power of two from 16 B to 8 KiB");
    }
    o.capacity = 0;
    o.backing = backing_option::elastic;
    EXPECT_EQ(published_heaps::create(o, {page_policy::rw}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(published_heaps::create_in(nullptr, 4 * mib, o, {page_policy::rw}).status().code(),
              absl::StatusCode::kInvalidArgument);
    o.capacity = 4 * mib;
    o.range = std::uint64_t{4} << 40;
    const auto too_wide = published_heaps::create(o, {page_policy::rw});
    EXPECT_EQ(too_wide.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(
        too_wide.status().message(),
        "range: a heap of a published algorithm spans 2 TiB at most, and 4398046511104 bytes are asked for; give a "
        "smaller range, or take Orchard's own algorithm");
    // In memory of the caller's its size counts, not the options, which are ignored there.
    char memory[1];
    EXPECT_EQ(published_heaps::create_in(memory, std::uint64_t{3} << 40, o, {page_policy::rw}).status().code(),
              absl::StatusCode::kInvalidArgument);
}

TEST(published_heaps, have_a_default_view_that_refuses_everything) {
    options o;
    o.device = device_option::emulated;
    o.capacity = 4 * mib;
    auto h = published_heaps::create(o, {page_policy::rw});
    ASSERT_TRUE(h.ok());
    const heap_ref wrong = h->ref();
    std::atomic<int> got = 0;
    const auto result = simt::run_emulated({2, 64}, [&](simt::thread_position at) {
        void* p = wrong.malloc(at.thread % 2 == 0 ? 100 : 3 * mib);
        got += p != nullptr ? 1 : 0;
        wrong.free(reinterpret_cast<void*>(4096));
    });
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_EQ(got, 0);
    EXPECT_TRUE(h->validate().ok());
}

}  // namespace
}  // namespace orchard::test
