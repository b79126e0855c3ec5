// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// ThrottlingFetch's stand-in: SMs that stop while evicted blocks come back, and compressed copies.

#include "uvm/model/sm_throttle.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"

namespace orchard::uvm_model {
namespace {

using testing::listed_source;
using testing::model_of;
using testing::one_lane;
using testing::run;

/// Reads of one lane, a step each.
listed_source::steps steps_of(const std::vector<std::uint64_t>& addresses) {
    listed_source::steps steps;
    for (const std::uint64_t at : addresses) {
        steps.push_back({{at, 0, access_kind::read}});
    }
    return steps;
}

/// One step in each of four regions of a VA block, so far apart that no prefetch brings another one.
listed_source::steps four_regions(std::uint64_t block) {
    const std::uint64_t base = block * segment_bytes;
    return steps_of({base, base + 8 * big_page_bytes, base + 16 * big_page_bytes, base + 24 * big_page_bytes});
}

/// Returns a model of two blocks on the CPU and one chunk of GPU memory; each warp has an SM of its own.
paging_model throttled_blocks(paging_policy policy, const char* constants) {
    paging_model model = model_of(
        2 * segment_bytes, 1, std::string("titan_v sms=2 sm_warps=1 block_warps=1 compression=1 ") + constants, policy);
    EXPECT_TRUE(model.populate({0, 2 * segment_bytes}, processor::cpu).ok());
    return model;
}

TEST(sm_throttle, halves_while_memory_thrashes_and_doubles_afterwards) {
    sm_throttle throttle(*parse_calibration("h200 throttle_batches=2 throttle_percent=50"), 7);
    // An epoch with this many services, of which so many are returns.
    const auto epoch = [&](int services, int returns) {
        throttle.end_batch();
        for (int i = 0; i < services; ++i) {
            throttle.note(i < returns);
        }
        return throttle.end_batch();
    };
    EXPECT_EQ(epoch(4, 2), 7u) << "half is not more than half";
    EXPECT_EQ(epoch(4, 3), 3u);
    EXPECT_EQ(epoch(1, 1), 1u);
    EXPECT_EQ(epoch(1, 1), 1u) << "one always runs";
    EXPECT_EQ(epoch(4, 2), 2u);
    EXPECT_EQ(epoch(0, 0), 4u);
    EXPECT_EQ(epoch(0, 0), 7u);
    EXPECT_EQ(epoch(1, 1), 3u);
    EXPECT_EQ(throttle.release(), 7u);
}

// One chunk, and two warps that need a block each. In the driver's batches both blocks are serviced, the second one
// evicts the first, and only warp 1 makes a step:
//
//     batch        1        2        3        4        5       6   7   8
//     services     b0 b1    b0 b1    b0 b1    b0 b1    b0      b0  b0  b0     evictions: 1 + 2 + 2 + 2 + 1 = 8
//
// With epochs of two batches, the second batch has returns and SM 1 stops until warp 0 has made its four steps:
//
//     batch        1        2        3    4    5    6    7    8
//     services     b0 b1    b0 b1    b0   b0   b0   b0   b1   b1              evictions: 1 + 2 + 1 + 1 = 5
TEST(throttling_fetch, stops_an_sm_while_two_warps_evict_each_others_block) {
    listed_source source(2 * segment_bytes, {four_regions(0), four_regions(1)});
    const char* constants = "throttle_batches=2 throttle_percent=0";
    paging_model driver = throttled_blocks(paging_policy::driver, constants);
    paging_model throttled = throttled_blocks(paging_policy::throttling_fetch, constants);
    const result plain = run(driver, source);
    const result r = run(throttled, source);
    EXPECT_EQ(plain.evictions, 8u);
    EXPECT_EQ(plain.batches, 8u);
    EXPECT_EQ(r.evictions, 5u);
    EXPECT_EQ(r.batches, 8u);
    EXPECT_EQ(r.block_services, 10u);
    EXPECT_EQ(r.steps, 8u);
    EXPECT_LT(r.bytes_in(), plain.bytes_in());
}

// SM 1 is stopped after batch 2, and warp 0 ends with batch 3: nothing else could wake the driver. In ns:
//
//     5,100     batch 1: a fault at 100, and the wake
//     11,200    batch 2: a fault at 6,200
//     17,300    batch 3: a fault at 12,300
//     18,350    warp 0 ends; warp 1 faults 100 later
//     23,450    batch 4
//     29,600    batch 5; warp 1 ends at 30,650
TEST(throttling_fetch, frees_all_sms_if_those_that_run_have_no_warp_left) {
    listed_source source(2 * segment_bytes, {steps_of({0}), four_regions(1)});
    paging_model model = throttled_blocks(paging_policy::throttling_fetch,
                                          "throttle_batches=1 throttle_percent=0 batch_ns=1000 block_ns=0 "
                                          "page_ns=0 eviction_ns=0 wake_ns=5000 refetch_ns=0 fault_ns=100 step_ns=50 "
                                          "fault_gap_ns=0 in_bytes_per_s=1e15 out_bytes_per_s=1e15");
    const result r = run(model, source);
    EXPECT_NEAR(r.seconds, 30'650e-9, 1e-12);
    EXPECT_EQ(r.steps, 5u);
    EXPECT_EQ(r.evictions, 5u) << "one, two, one; and block 1 comes back";
    EXPECT_EQ(r.batches, 5u);
}

TEST(throttling_fetch, does_nothing_where_no_evicted_block_comes_back) {
    // Two warps, each on an SM of its own, pass through three blocks each; two chunks.
    listed_source once(6 * segment_bytes, {steps_of({0, 2 * segment_bytes, 4 * segment_bytes}),
                                           steps_of({segment_bytes, 3 * segment_bytes, 5 * segment_bytes})});
    const char* machine = "titan_v sms=2 sm_warps=1 block_warps=1 compression=1 throttle_batches=1 throttle_percent=0";
    paging_model driver = model_of(6 * segment_bytes, 2, machine);
    paging_model throttled = model_of(6 * segment_bytes, 2, machine, paging_policy::throttling_fetch);
    const result r = run(throttled, once);
    EXPECT_EQ(r.evictions, 4u);
    EXPECT_EQ(r, run(driver, once));
}

// As paging_model.time_is_the_sum_of_what_happened: 16 pages at 1 ns, here 2 for the price of one.
TEST(throttling_fetch, copies_take_the_time_of_compressed_bytes) {
    const calibration c = *parse_calibration(
        "titan_v batch_ns=1000 block_ns=100 page_ns=10 copy_ns=1 wake_ns=5000 fault_ns=0 fault_gap_ns=0 step_ns=50 "
        "refetch_ns=0 in_bytes_per_s=4096e9 compression=2");
    paging_model model =
        *paging_model::create({.bytes = segment_bytes, .machine = c, .policy = paging_policy::throttling_fetch});
    ASSERT_TRUE(model.populate({0, segment_bytes}, processor::cpu).ok());
    listed_source source = one_lane(segment_bytes, {0, 0});
    const result r = run(model, source);
    EXPECT_NEAR(r.seconds, 1e-9 * (5000 + 1000 + 100 + 10 + 1 + 8 + 50 + 50), 1e-12);
    EXPECT_EQ(r.bytes_in(), 16 * os_page_bytes) << "bytes are those of pages, not of the link";
}

}  // namespace
}  // namespace orchard::uvm_model
