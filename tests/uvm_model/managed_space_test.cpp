// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Services without time: first touch (P1), growth, memory (E1), eviction (E2, E3), discard and prefetch.

#include "uvm/model/managed_space.hpp"

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"

namespace orchard::uvm_model {
namespace {

using testing::big_pages;
using testing::mib;
using testing::on_cpu;
using testing::on_gpu;
using testing::pages;
using testing::whole;

void expect_valid(const managed_space& space) { EXPECT_TRUE(space.validate().ok()) << space.validate(); }

block_faults reads(const page_mask& mask) { return {mask, {}}; }
block_faults writes(const page_mask& mask) { return {{}, mask}; }

/// `segments` segments, all populated on the CPU.
managed_space on_cpu_before(std::uint64_t segments, std::uint64_t chunks) {
    managed_space space(segments * segment_bytes, chunks);
    EXPECT_TRUE(space.populate({0, segments * segment_bytes}, processor::cpu).ok());
    return space;
}

TEST(managed_space, a_fault_brings_its_big_page) {
    managed_space space = on_cpu_before(1, 1);
    const work done = space.service(0, reads(pages({17})));
    EXPECT_EQ(on_gpu(space), big_pages({1}));
    EXPECT_EQ(on_cpu(space), page_mask(whole).without(big_pages({1})));
    EXPECT_EQ(done.pages, 1u);
    EXPECT_EQ(done.pages_in, 16u);
    EXPECT_EQ(done.copies_in, 1u) << "what faulted and what the prefetcher brings around it, in one piece";
    EXPECT_EQ(space.counts().demand_pages, 1u);
    EXPECT_EQ(space.counts().prefetched_pages, 15u);
    expect_valid(space);
}

TEST(managed_space, first_touch_moves_no_bytes) {
    managed_space space(segment_bytes, 1);
    const work done = space.service(0, writes(pages({17})));
    EXPECT_EQ(on_gpu(space), big_pages({1}));
    EXPECT_EQ(done.pages_in, 0u);
    EXPECT_EQ(space.counts().populated_pages, 16u);
    expect_valid(space);
}

// P1
TEST(managed_space, first_touch_at_the_preferred_location_populates_the_block) {
    managed_space space(2 * segment_bytes, 2);
    ASSERT_TRUE(space.advise({0, 2 * segment_bytes}, advice::prefer_gpu).ok());
    (void)space.service(0, reads(pages({300})));
    EXPECT_EQ(on_gpu(space), page_mask(whole));
    EXPECT_TRUE(on_gpu(space, 1).empty());
    // Not allowed if a part of the block is resident, here one page on the CPU.
    ASSERT_TRUE(space.populate({segment_bytes, os_page_bytes}, processor::cpu).ok());
    (void)space.service(1, reads(pages({300})));
    EXPECT_EQ(on_gpu(space, 1), big_pages({300 / 16}));
    expect_valid(space);
}

TEST(managed_space, advice_after_the_first_touch_does_not_populate_the_block) {
    managed_space space(segment_bytes, 1);
    (void)space.service(0, reads(pages({0})));
    ASSERT_TRUE(space.advise({0, segment_bytes}, advice::prefer_gpu).ok());
    (void)space.service(0, reads(pages({300})));
    EXPECT_EQ(on_gpu(space), big_pages({0, 300 / 16}));
}

TEST(managed_space, served_faults_are_stale) {
    managed_space space = on_cpu_before(1, 1);
    (void)space.service(0, reads(pages({0})));
    const work done = space.service(0, reads(pages({0, 3})));
    EXPECT_EQ(done.pages, 0u);
    EXPECT_EQ(space.counts().stale_faults, 2u);
    EXPECT_EQ(space.counts().distinct_faults, 3u);
}

// E1
TEST(managed_space, a_block_takes_a_chunk_for_one_page_and_no_more_for_all) {
    managed_space space = on_cpu_before(3, 3);
    (void)space.service(0, reads(pages({0})));
    result r;
    space.close(r);
    EXPECT_EQ(r.chunks_used, 1u);
    EXPECT_EQ(r.active_blocks, 1u);
    (void)space.service(0, reads(page_mask(whole).without(big_pages({0}))));
    (void)space.service(1, reads(pages({0})));
    space.close(r);
    EXPECT_EQ(r.chunks_used, 2u);
    EXPECT_EQ(r.active_blocks, 2u);
}

// E2
TEST(managed_space, the_chunk_serviced_longest_ago_is_evicted) {
    managed_space space = on_cpu_before(4, 3);
    for (const std::uint32_t block : {0u, 1u, 2u}) {
        (void)space.service(block, reads(pages({0})));
    }
    (void)space.service(0, reads(pages({100})));  // serviced again: young
    // A stale fault is no service, and an access without a fault is none either.
    (void)space.service(1, reads(pages({0})));
    const work done = space.service(3, reads(pages({0})));
    EXPECT_EQ(done.evictions, 1u);
    EXPECT_TRUE(on_gpu(space, 1).empty());
    EXPECT_FALSE(on_gpu(space, 0).empty());
    EXPECT_FALSE(on_gpu(space, 2).empty());
    expect_valid(space);
}

// E3
TEST(managed_space, eviction_writes_back_all_pages_read_or_written) {
    managed_space space = on_cpu_before(2, 1);
    (void)space.service(0, reads(pages({0, 40})));
    (void)space.service(0, writes(pages({200})));
    const work done = space.service(1, reads(pages({0})));
    EXPECT_EQ(done.pages_out, 48u);
    EXPECT_EQ(done.copies_out, 3u);
    EXPECT_EQ(on_cpu(space), page_mask(whole));
    EXPECT_EQ(space.counts().written_back_pages, 48u);
    expect_valid(space);
}

TEST(managed_space, discarded_pages_are_not_written_back_and_come_back_for_nothing) {
    managed_space space = on_cpu_before(2, 1);
    (void)space.service(0, writes(big_pages({0, 4})));
    ASSERT_TRUE(space.discard({0, 64 << 10}).ok());
    work done = space.service(1, reads(pages({0})));
    EXPECT_EQ(done.pages_out, 16u) << "big page 4 alone";
    EXPECT_EQ(space.counts().dropped_pages, 16u);
    EXPECT_EQ(on_cpu(space), page_mask(whole).without(big_pages({0})));
    done = space.service(0, reads(pages({0})));
    EXPECT_EQ(done.pages_in, 0u);
    expect_valid(space);
}

TEST(managed_space, discarded_pages_on_the_cpu_do_not_move) {
    managed_space space = on_cpu_before(1, 1);
    ASSERT_TRUE(space.discard({0, segment_bytes}).ok());
    EXPECT_EQ(space.service(0, writes(big_pages({0}))).pages_in, 0u);
    expect_valid(space);
}

TEST(managed_space, a_write_after_a_discard_counts) {
    managed_space space = on_cpu_before(2, 1);
    (void)space.service(0, writes(big_pages({0})));
    ASSERT_TRUE(space.discard({0, 64 << 10}).ok());
    (void)space.service(0, writes(pages({3})));
    EXPECT_EQ(space.service(1, reads(pages({0}))).pages_out, 1u);
    expect_valid(space);
}

TEST(managed_space, prefetch_brings_exactly_its_range_and_marks_young) {
    managed_space space = on_cpu_before(3, 2);
    (void)space.service(0, reads(pages({0})));
    (void)space.service(1, reads(pages({0})));
    const absl::StatusOr<work> done = space.prefetch({20 * os_page_bytes, 5 * os_page_bytes}, processor::gpu);
    ASSERT_TRUE(done.ok());
    EXPECT_EQ(done->pages_in, 5u) << "no tree, no growth";
    EXPECT_EQ(on_gpu(space), big_pages({0}) | page_mask({20, 25}));
    EXPECT_EQ(space.counts().explicit_pages, 5u);
    (void)space.service(2, reads(pages({0})));
    EXPECT_TRUE(on_gpu(space, 1).empty()) << "0 was younger";
    expect_valid(space);
}

TEST(managed_space, prefetch_to_the_cpu_frees_the_chunk) {
    managed_space space = on_cpu_before(2, 1);
    (void)space.service(0, reads(pages({0})));
    const absl::StatusOr<work> done = space.prefetch({0, segment_bytes}, processor::cpu);
    ASSERT_TRUE(done.ok());
    EXPECT_EQ(done->pages_out, 16u);
    EXPECT_EQ(space.service(1, reads(pages({0}))).evictions, 0u);
    expect_valid(space);
}

TEST(managed_space, prefetch_of_more_than_there_is_keeps_the_last) {
    managed_space space = on_cpu_before(4, 2);
    const absl::StatusOr<work> done = space.prefetch({0, 4 * segment_bytes}, processor::gpu);
    ASSERT_TRUE(done.ok());
    EXPECT_EQ(done->evictions, 2u);
    EXPECT_EQ(on_gpu(space, 3), page_mask(whole));
    EXPECT_TRUE(on_gpu(space, 0).empty());
    expect_valid(space);
}

TEST(managed_space, populate_on_the_gpu_moves_nothing) {
    managed_space space(2 * segment_bytes, 1);
    const absl::StatusOr<work> done = space.populate({0, 2 * segment_bytes}, processor::gpu);
    ASSERT_TRUE(done.ok());
    EXPECT_EQ(done->evictions, 1u) << "one chunk: the second block drives the first out";
    EXPECT_EQ(done->pages_in, 0u);
    EXPECT_EQ(on_gpu(space, 1), page_mask(whole));
    EXPECT_EQ(on_cpu(space, 0), page_mask(whole));
    expect_valid(space);
}

TEST(managed_space, ranges_are_checked) {
    managed_space space(segment_bytes, 1);
    for (const byte_range range : {byte_range{1, 4096}, byte_range{0, 100}, byte_range{0, segment_bytes + 4096},
                                   byte_range{segment_bytes + 4096, 0}, byte_range{4096, ~0ull - 4095}}) {
        EXPECT_EQ(space.advise(range, advice::read_mostly).code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(space.discard(range).code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(space.prefetch(range, processor::gpu).status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(space.populate(range, processor::cpu).status().code(), absl::StatusCode::kInvalidArgument);
    }
    EXPECT_TRUE(space.advise({segment_bytes, 0}, advice::read_mostly).ok());
    EXPECT_EQ(space.blocks(), 1u);
}

}  // namespace
}  // namespace orchard::uvm_model
