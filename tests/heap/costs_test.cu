// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// What a request costs, counted on the emulated device.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Lanes of a mask allocate and free `rounds` times: every time but the first the lanes find pages at home.
struct allocate_and_free {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint32_t rounds;
    simt::lane_mask mask;
    std::uint32_t frees;  ///< 0: keeps all

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if ((mask >> at.thread & 1) == 0) {
            return;
        }
        for (std::uint32_t i = 0; i < rounds; ++i) {
            void* p = heap.malloc(bytes);
            if (frees != 0) {
                heap.free(p);
            }
        }
    }
};

class heap_costs : public heap_contract {
protected:
    using costs = simt::emulated::costs;

    /// What `rounds` rounds cost, and how many of the counted statistics they changed.
    struct measured {
        costs cost;
        std::uint64_t statistics_changed;
    };
    measured measure(std::uint64_t bytes, std::uint32_t rounds, simt::lane_mask mask, bool frees = true) {
        const statistics before = settled_stats();
        const costs cost = launch({1, 32}, allocate_and_free{h().ref(), bytes, rounds, mask, frees ? 1u : 0u});
        const statistics after = settled_stats();
        std::uint64_t changed = 0;
        for (const statistic_field field : {&statistics::allocations, &statistics::frees, &statistics::allocated_bytes,
                                            &statistics::groups, &statistics::multi_lane_groups}) {
            changed += after.*field != before.*field ? 1 : 0;
        }
        return {cost, changed};
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_costs, ::testing::Values(heap_cases()[0]), case_name);

TEST_P(heap_costs, a_hit_is_one_atomic_for_the_warp_and_a_free_another) {
    for (const std::uint64_t bytes : {16u, 80u, 1024u, 20'000u}) {
        (void)measure(bytes, 1, ~0u);  // the class has its slab
        for (const simt::lane_mask mask : {~0u, 0x0f0f0f0fu, 1u, 0x80000000u}) {
            const measured few = measure(bytes, 1, mask);
            const measured many = measure(bytes, 11, mask);
            // Each round: one claim, one free, and one atomic at most for each statistic.
            const std::uint64_t atomics = many.cost.device_atomics - few.cost.device_atomics;
            EXPECT_GE(atomics, 10 * 2u);
            EXPECT_LE(atomics, 10 * (2 + many.statistics_changed)) << bytes << " bytes, lanes " << mask;
            EXPECT_EQ(many.cost.host_words_read, 0u);
            EXPECT_EQ(many.cost.host_words_written, 0u);
            EXPECT_EQ(many.cost.host_atomics, 0u);
            EXPECT_EQ(many.cost.pauses, 0u);
        }
    }
}

TEST_P(heap_costs, a_warp_costs_what_a_lane_costs) {
    (void)measure(64, 1, ~0u);
    const measured warp = measure(64, 20, ~0u);
    const measured lane = measure(64, 20, 2u);
    // The statistic of groups of several lanes is the only difference; loads: each lane looks at its descriptor.
    EXPECT_LE(warp.cost.device_atomics, lane.cost.device_atomics + 20);
    EXPECT_EQ(warp.cost.device_stores, lane.cost.device_stores);
    EXPECT_LE(warp.cost.device_loads, lane.cost.device_loads + 20 * 31);
}

TEST_P(heap_costs, the_magazine_keeps_the_host_out) {
    // The first requests fetch a batch; the next ones give back what is more than the magazine keeps.
    for (int i = 0; i < 2; ++i) {
        launch({1, 32}, allocate_and_free{h().ref(), segments(1), 30, 1u, 1u});
        expect_valid("once the batch has come");
    }
    const std::uint64_t posts_before = settled_stats().posts;
    const costs cost = launch({1, 32}, allocate_and_free{h().ref(), segments(1), 20, 1u, 1u});
    EXPECT_EQ(settled_stats().posts, posts_before);
    EXPECT_EQ(cost.host_words_read, 0u);
    EXPECT_EQ(cost.host_words_written, 0u);
}

TEST_P(heap_costs, what_the_host_is_asked_without_a_magazine) {
    remake(heap_cases()[1].values());
    const statistics before = settled_stats();
    const costs cost = launch({1, 1}, allocate_and_free{h().ref(), segments(1), 10, 1u, 1u});
    const statistics after = settled_stats();
    EXPECT_EQ(after.posts - before.posts, 20u);  // a grant and a return each
    EXPECT_EQ(after.grants - before.grants, 10u);
    EXPECT_EQ(after.returns - before.returns, 10u);
    EXPECT_EQ(cost.host_words_written, 20u);
    EXPECT_EQ(cost.host_atomics, 0u);
}

}  // namespace
}  // namespace orchard::test
