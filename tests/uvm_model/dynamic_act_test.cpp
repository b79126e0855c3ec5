// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// DynamicACT's stand-in: accesses to the host are counted, and bring their memory at a threshold that grows.

#include "uvm/model/access_counters.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"

namespace orchard::uvm_model {
namespace {

using testing::computed_source;
using testing::listed_source;
using testing::model_of;
using testing::one_lane;
using testing::run;

/// Returns a model of two blocks on the CPU and one chunk of GPU memory.
paging_model counted_blocks() {
    paging_model model =
        model_of(2 * segment_bytes, 1, "titan_v act_threshold=3 act_penalty=2", paging_policy::dynamic_act);
    EXPECT_TRUE(model.populate({0, 2 * segment_bytes}, processor::cpu).ok());
    return model;
}

/// Returns `first`, then `times` times `address`.
std::vector<std::uint64_t> then(std::vector<std::uint64_t> first, std::uint64_t address, int times) {
    first.insert(first.end(), static_cast<std::size_t>(times), address);
    return first;
}

TEST(access_counters, the_threshold_grows_with_memory_use_and_evictions) {
    managed_space space(8 * segment_bytes, 4, host_access::remote);
    const access_counters counters(*parse_calibration("h200 act_threshold=8 act_penalty=5"), space);
    const auto threshold = [&](std::uint32_t block) { return counters.threshold_of(space.block(block)); };
    EXPECT_EQ(threshold(0), 1u);
    for (const std::uint64_t expected : {3u, 5u, 7u}) {
        ASSERT_TRUE(space.populate({space.used_chunks() * segment_bytes, segment_bytes}, processor::gpu).ok());
        EXPECT_EQ(threshold(7), expected);
    }
    ASSERT_TRUE(space.populate({3 * segment_bytes, segment_bytes}, processor::gpu).ok());
    EXPECT_EQ(threshold(7), 8u * 5);
    ASSERT_TRUE(space.populate({4 * segment_bytes, segment_bytes}, processor::gpu).ok());
    EXPECT_EQ(threshold(0), 8u * 2 * 5) << "it was evicted once";
    EXPECT_EQ(threshold(1), 8u * 5);
}

// Of one region: page 0 has a copy on each processor, page 1 is on the host, and page 2 in the next VA block.
TEST(access_counters, unmap_what_is_on_the_host_alone_in_one_block) {
    managed_space space(segment_bytes, 1, host_access::remote);
    ASSERT_TRUE(space.populate({0, segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({0, 2 * os_page_bytes}, advice::read_mostly).ok());
    ASSERT_TRUE(space.prefetch({0, os_page_bytes}, processor::gpu).ok());
    space.unmap_host_region(1);
    EXPECT_EQ(space.mask(0, &page_states::readable), page_mask(testing::whole).without(testing::pages({1})));
    EXPECT_TRUE(space.validate().ok()) << space.validate();
    space.unmap_host_region(2);
    EXPECT_EQ(space.mask(0, &page_states::readable), page_mask({16, 512}) | testing::pages({0}));
}

// The first access finds all memory free: the threshold is 1, and block 0 comes. Then memory is full, and block 1 has
// the threshold 3 * 1 * 2: five of six accesses are remote, the sixth faults and evicts block 0. That has the
// threshold 3 * 2 * 2 then: eleven of twelve are remote.
TEST(dynamic_act, brings_memory_when_its_counter_passes_the_threshold) {
    paging_model model = counted_blocks();
    listed_source source = one_lane(2 * segment_bytes, then(then({0}, segment_bytes, 6), 0, 12));
    const result r = run(model, source);
    EXPECT_EQ(r.accesses, 19u);
    EXPECT_EQ(r.raw_faults, 3u);
    EXPECT_EQ(r.stale_faults, 0u);
    EXPECT_EQ(r.remote_accesses, 5u + 11);
    EXPECT_EQ(r.remote_bytes, 16u * 32);
    EXPECT_EQ(r.hits, 16u) << "remote ones do not wait";
    EXPECT_EQ(r.evictions, 2u);
    EXPECT_EQ(r.bytes_in(), 3 * big_page_bytes);
}

TEST(dynamic_act, leaves_memory_on_the_host_below_the_threshold) {
    paging_model model = counted_blocks();
    // Two regions of block 1, five accesses each: they have counters of their own.
    listed_source source = one_lane(
        2 * segment_bytes, then(then(then({0}, segment_bytes, 5), segment_bytes + big_page_bytes, 5), 4096, 1));
    const result r = run(model, source);
    EXPECT_EQ(r.raw_faults, 1u);
    EXPECT_EQ(r.remote_accesses, 10u);
    EXPECT_EQ(r.evictions, 0u);
    EXPECT_EQ(r.hits, 11u) << "block 0 is still there";
}

// Lanes 0 to 4 are remote, lane 5 passes the threshold of 6, and lane 6 finds the region unmapped.
TEST(dynamic_act, counts_each_lane_of_a_step) {
    paging_model model = counted_blocks();
    listed_source::steps steps{{{0, 0, access_kind::read}}, {}};
    for (std::uint8_t lane = 0; lane < 7; ++lane) {
        steps[1].push_back({segment_bytes + lane * os_page_bytes, lane, access_kind::read});
    }
    listed_source source(2 * segment_bytes, {steps});
    const result r = run(model, source);
    EXPECT_EQ(r.accesses, 8u);
    EXPECT_EQ(r.raw_faults, 3u);
    EXPECT_EQ(r.remote_accesses, 5u);
    EXPECT_EQ(r.evictions, 1u);
}

// With memory free the threshold is 1: every first access faults, as it does by the driver's rules.
TEST(dynamic_act, does_what_the_driver_does_where_memory_is_free) {
    const std::uint64_t bytes = 8 * segment_bytes;
    std::mt19937_64 random(1);
    std::vector<std::uint64_t> addresses(20 * 30 * max_lanes);
    for (std::uint64_t& at : addresses) {
        at = random() % bytes;
    }
    computed_source source(bytes, 20, 30, [&](std::uint32_t warp, std::uint64_t step, std::uint32_t lane) {
        return addresses[(warp * 30 + step) * max_lanes + lane];
    });
    paging_model driver = model_of(bytes, std::nullopt, "h200");
    paging_model counted = model_of(bytes, std::nullopt, "h200", paging_policy::dynamic_act);
    ASSERT_TRUE(driver.populate({0, bytes}, processor::cpu).ok());
    ASSERT_TRUE(counted.populate({0, bytes}, processor::cpu).ok());
    const result r = run(counted, source);
    EXPECT_EQ(r.remote_accesses, 0u);
    EXPECT_EQ(r, run(driver, source));
}

TEST(dynamic_act, does_not_count_what_advice_keeps_on_the_host) {
    for (const advice what : {advice::accessed_by, advice::prefer_cpu}) {
        paging_model model = counted_blocks();
        ASSERT_TRUE(model.advise({0, 2 * segment_bytes}, what).ok());
        listed_source source = one_lane(2 * segment_bytes, then({}, 0, 100));
        const result r = run(model, source);
        EXPECT_EQ(r.remote_accesses, 100u);
        EXPECT_EQ(r.bytes_in(), 0u);
        EXPECT_EQ(r.raw_faults, 0u);
    }
}

}  // namespace
}  // namespace orchard::uvm_model
