// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Early-Adaptor's stand-in: the prefetch threshold of a block that faulted much, or little, while memory may thrash.

#include "uvm/model/fault_history.hpp"

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"

namespace orchard::uvm_model {
namespace {

using testing::listed_source;
using testing::model_of;
using testing::one_lane;
using testing::run;

/// Returns a model of two blocks on the CPU and `chunks` of GPU memory, with epochs of two services a chunk.
paging_model adapted_blocks(paging_policy policy, std::uint64_t chunks) {
    paging_model model =
        model_of(2 * segment_bytes, chunks, "titan_v adapt_services=2 adapt_percent=25 monitor_ns=0", policy);
    EXPECT_TRUE(model.populate({0, 2 * segment_bytes}, processor::cpu).ok());
    return model;
}

TEST(fault_history, has_a_threshold_for_each_block_that_faulted) {
    fault_history history(*parse_calibration("h200 adapt_services=2 adapt_percent=30"), 2);
    history.note(3, 10);
    history.end_batch();
    history.note(3, 2);
    history.note(5, 1);
    history.note(8, 2);
    EXPECT_EQ(history.threshold_of(3), 51u) << "the epoch has not ended";
    history.end_batch();
    // 3 blocks, 15 faults: 5 on average.
    EXPECT_EQ(history.threshold_of(3), 30u);
    EXPECT_EQ(history.threshold_of(5), 100u);
    EXPECT_EQ(history.threshold_of(8), 100u);
    EXPECT_EQ(history.threshold_of(0), 51u) << "it has not faulted";
    EXPECT_EQ(history.threshold_of(900), 51u);
    for (int batch = 0; batch < 2; ++batch) {
        history.note(5, 9);
        history.note(8, 1);
        history.end_batch();
    }
    EXPECT_EQ(history.threshold_of(5), 51u) << "two blocks have room";
    EXPECT_EQ(history.threshold_of(3), 51u);
}

TEST(fault_history, blocks_at_the_average_get_no_prefetch) {
    fault_history history(*parse_calibration("h200 adapt_services=1 adapt_percent=30"), 1);
    history.note(0, 4);
    history.note(1, 4);
    history.end_batch();
    EXPECT_EQ(history.threshold_of(0), 100u);
    EXPECT_EQ(history.threshold_of(1), 100u);
    history.note(0, 4);
    history.note(1, 2);
    history.end_batch();
    EXPECT_EQ(history.threshold_of(0), 30u) << "the average is that of one epoch";
    EXPECT_EQ(history.threshold_of(1), 100u);
}

// One lane, and one chunk for two blocks: each access faults. In the first epoch each fault brings its 64 KiB, 15 pages
// by prefetch; in the second one the prefetcher is off.
TEST(early_adaptor, stops_prefetching_where_more_blocks_fault_than_fit) {
    const std::uint64_t far = 16 * big_page_bytes;
    listed_source source = one_lane(2 * segment_bytes, {0, segment_bytes, far, segment_bytes + far});
    paging_model driver = adapted_blocks(paging_policy::driver, 1);
    paging_model adaptor = adapted_blocks(paging_policy::early_adaptor, 1);
    const result plain = run(driver, source);
    const result r = run(adaptor, source);
    EXPECT_EQ(plain.demand_pages, 4u);
    EXPECT_EQ(plain.prefetched_pages, 4u * 15);
    EXPECT_EQ(r.demand_pages, 4u);
    EXPECT_EQ(r.prefetched_pages, 2u * 15);
    EXPECT_EQ(r.bytes_in(), (4 + 2 * 15) * os_page_bytes);
    EXPECT_EQ(r.evictions, plain.evictions);
}

// Block 0 faults on three pages, block 1 on one; two on average. Then a fault on leaf 4 of each: in block 0 the node
// {4, 5} has 16 of 32 pages, which is more than 25 %, and {4..7} has 16 of 64, which is not.
TEST(early_adaptor, prefetches_more_where_a_block_faults_much) {
    const std::uint64_t leaf = 4 * big_page_bytes;
    listed_source source(2 * segment_bytes,
                         {{{{0, 0, access_kind::read}, {4096, 1, access_kind::read}, {8192, 2, access_kind::read}},
                           {{segment_bytes, 0, access_kind::read}},
                           {{leaf, 0, access_kind::read}},
                           {{segment_bytes + leaf, 0, access_kind::read}}}});
    paging_model driver = adapted_blocks(paging_policy::driver, 1);
    paging_model adaptor = adapted_blocks(paging_policy::early_adaptor, 1);
    EXPECT_EQ(run(driver, source).prefetched_pages, 13u + 15 + 15 + 15);
    EXPECT_EQ(run(adaptor, source).prefetched_pages, 13u + 15 + 31 + 0);
}

TEST(early_adaptor, does_nothing_but_watch_where_all_blocks_fit) {
    const std::uint64_t far = 16 * big_page_bytes;
    listed_source source = one_lane(2 * segment_bytes, {0, segment_bytes, far, segment_bytes + far, 0});
    paging_model driver = adapted_blocks(paging_policy::driver, 2);
    paging_model adaptor = adapted_blocks(paging_policy::early_adaptor, 2);
    const result plain = run(driver, source);
    EXPECT_EQ(run(adaptor, source), plain);
    // Watching has its price: four services, in four batches.
    paging_model watched =
        model_of(2 * segment_bytes, 2, "titan_v adapt_services=2 monitor_ns=700", paging_policy::early_adaptor);
    ASSERT_TRUE(watched.populate({0, 2 * segment_bytes}, processor::cpu).ok());
    result r = run(watched, source);
    EXPECT_NEAR(r.seconds - plain.seconds, 1e-9 * 4 * 700, 4e-9);
    r.seconds = plain.seconds;
    EXPECT_EQ(r, plain);
}

}  // namespace
}  // namespace orchard::uvm_model
