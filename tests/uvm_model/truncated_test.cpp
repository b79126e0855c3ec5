// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// VA blocks that a policy boundary has truncated: smaller trees with ragged ends, and smaller chunks.

#include <random>

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"
#include "uvm/model/managed_space.hpp"
#include "uvm/model/prefetch_tree.hpp"

namespace orchard::uvm_model {
namespace {

using testing::big_pages;
using testing::on_gpu;
using testing::pages;

TEST(truncated, a_policy_boundary_splits_a_block) {
    managed_space space(2 * segment_bytes, 4);
    ASSERT_TRUE(space.advise({100 * os_page_bytes, segment_bytes}, advice::accessed_by).ok());
    EXPECT_EQ(space.blocks(), 4u);
    EXPECT_EQ(space.block(space.block_of(99)).pages, (page_range{0, 100}));
    EXPECT_EQ(space.block(space.block_of(100)).pages, (page_range{100, 512}));
    EXPECT_EQ(space.block(space.block_of(512 + 99)).pages, (page_range{0, 100}));
    EXPECT_EQ(space.block(space.block_of(512 + 100)).pages, (page_range{100, 512}));
    EXPECT_TRUE(space.block(space.block_of(512 + 99)).advised.accessed_by);
    EXPECT_FALSE(space.block(space.block_of(512 + 100)).advised.accessed_by);
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

TEST(truncated, the_same_advice_again_or_on_whole_blocks_splits_nothing) {
    managed_space space(2 * segment_bytes, 4);
    ASSERT_TRUE(space.advise({0, segment_bytes}, advice::prefer_gpu).ok());
    ASSERT_TRUE(space.advise({4096, 8192}, advice::prefer_gpu).ok());
    EXPECT_EQ(space.blocks(), 2u);
}

TEST(truncated, each_part_has_a_tree_of_its_own) {
    managed_space space(segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({0, segment_bytes / 2}, advice::prefer_gpu).ok());
    // 9 of the 16 leaves of the first half bring it, and nothing of the second.
    page_mask faulted;
    for (const std::uint32_t leaf : {0u, 2u, 4u, 6u, 8u, 10u, 12u, 14u, 1u}) {
        faulted.add(leaf * 16);
    }
    (void)space.service(0, {faulted, {}});
    EXPECT_EQ(on_gpu(space), page_mask({0, 256}));
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

// A ragged head or tail counts as one region.
TEST(truncated, ragged_ends_grow_as_wholes) {
    const page_range block{5, 40};  // a head of 11 pages, one big page, a tail of 8
    EXPECT_EQ(prefetch_mask(block, {}, pages({20})), page_mask({16, 32}).without(pages({20})));
    EXPECT_EQ(prefetch_mask(block, {}, pages({35})), page_mask({32, 40}).without(pages({35})));
    // The head's big page has 5 missing pages: 11 of 16 pass the threshold, but the range begins 5 pages into the
    // block.
    EXPECT_EQ(prefetch_mask(block, {}, pages({7})), page_mask({10, 16}));
    // A block without a whole big page is one region.
    EXPECT_EQ(prefetch_mask({3, 20}, {}, pages({4})), page_mask({3, 20}).without(pages({4})));
}

TEST(truncated, a_short_head_fails_its_node) {
    // A head of 2 pages: of its node of 16 there are 2, and of the node of 32 18, 56 %: which brings both, but for the
    // ghosts' number of pages at its beginning, here 14.
    EXPECT_EQ(prefetch_mask({14, 64}, {}, pages({14})), pages({15}).without(pages({14})));
    EXPECT_EQ(prefetch_mask({14, 64}, page_mask({16, 32}), pages({14})).count(), 32u - 28u);
}

TEST(truncated, nodes_end_with_the_block) {
    // 20 pages: the root is {0..19}, not {0..31}; 16 of 20 pass.
    EXPECT_EQ(prefetch_mask({0, 20}, {}, pages({0})), page_mask({0, 20}).without(pages({0})));
}

// P3: the comparison is strict, which only a node of a hundred pages can show.
TEST(truncated, exactly_51_per_cent_are_not_enough) {
    const page_range block{0, 100};  // its tail {96..99} grows as one
    for (const std::uint32_t before : {47u, 48u}) {
        const page_mask brought = prefetch_mask(block, page_mask({0, before}), pages({96}));
        EXPECT_EQ((brought | page_mask({0, before}) | pages({96})) == page_mask(block), before == 48) << before;
    }
}

TEST(truncated, every_prefetch_stays_in_its_block_and_holds_its_big_page) {
    std::mt19937 random(29);
    for (int round = 0; round < 5000; ++round) {
        const auto first = static_cast<std::uint32_t>(random() % 512);
        const page_range block{first, first + 1 + static_cast<std::uint32_t>(random() % (512 - first))};
        page_mask resident;
        for (int i = 0; i < 8; ++i) {
            const auto p = static_cast<std::uint32_t>(random() % 512);
            resident.add(page_range{p, std::min(512u, p + 30)});
        }
        const auto fault = block.first + static_cast<std::uint32_t>(random() % block.size());
        const page_mask faulted = pages({fault});
        const page_mask brought = prefetch_mask(block, resident, faulted);
        ASSERT_TRUE(brought.without(page_mask(block)).empty()) << block.first << ", " << block.end;
        if (block.first % 16 == 0 && fault / 16 * 16 + 16 <= block.end) {
            ASSERT_EQ((brought | faulted).count({fault / 16 * 16, fault / 16 * 16 + 16}), 16u);
        }
    }
}

TEST(truncated, parts_share_a_chunk_and_leave_together) {
    managed_space space(3 * segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, 3 * segment_bytes}, processor::cpu).ok());
    // The second half of segment 0 and the first of segment 1 are truncated blocks.
    ASSERT_TRUE(space.advise({segment_bytes / 2, segment_bytes}, advice::prefer_gpu).ok());
    (void)space.service(space.block_of(256), {pages({256}), {}});
    (void)space.service(space.block_of(512), {pages({0}), {}});
    result r;
    space.close(r);
    EXPECT_EQ(r.chunks_used, 1u) << "two regions of 64 KiB in one chunk of 2 MiB";
    EXPECT_EQ(r.active_blocks, 2u);
    const work done = space.service(space.block_of(1024), {pages({0}), {}});
    EXPECT_EQ(done.evictions, 1u);
    EXPECT_EQ(done.pages_out, 32u);
    EXPECT_TRUE(on_gpu(space, 0).empty());
    EXPECT_TRUE(on_gpu(space, 1).empty());
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

TEST(truncated, a_resident_block_keeps_its_pages_when_it_is_split) {
    managed_space space(2 * segment_bytes, 2);
    ASSERT_TRUE(space.populate({0, 2 * segment_bytes}, processor::cpu).ok());
    (void)space.service(0, {big_pages({0, 5, 6, 20}), {}});
    const page_mask before = on_gpu(space);
    ASSERT_TRUE(space.advise({90 * os_page_bytes, 100 * os_page_bytes}, advice::accessed_by).ok());
    EXPECT_EQ(space.blocks(), 4u);
    EXPECT_EQ(on_gpu(space), before);
    EXPECT_TRUE(space.validate().ok()) << space.validate();
    EXPECT_EQ(space.prefetch({0, segment_bytes}, processor::cpu)->pages_out, before.count());
    EXPECT_TRUE(space.validate().ok()) << space.validate();
    result r;
    space.close(r);
    EXPECT_EQ(r.chunks_used, 0u);
}

TEST(truncated, more_regions_than_one_chunk_holds_are_served_with_one_chunk) {
    managed_space space(2 * segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, 2 * segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({os_page_bytes, 2 * segment_bytes - 2 * os_page_bytes}, advice::prefer_gpu).ok());
    for (int round = 0; round < 3; ++round) {
        for (const std::uint64_t page : {1u, 512u}) {
            const std::uint32_t block = space.block_of(page);
            (void)space.service(block, {page_mask(space.block(block).pages), {}});
            EXPECT_EQ(on_gpu(space, space.block(block).segment).count(space.block(block).pages), 511u);
            ASSERT_TRUE(space.validate().ok()) << space.validate();
        }
    }
}

TEST(truncated, a_space_may_end_inside_a_segment) {
    managed_space space(segment_bytes + 20 * os_page_bytes, 1);
    EXPECT_EQ(space.block(space.block_of(512)).pages, (page_range{0, 20}));
    (void)space.service(space.block_of(512), {pages({19}), {}});
    EXPECT_EQ(on_gpu(space, 1).count({0, 20}), on_gpu(space, 1).count());
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

}  // namespace
}  // namespace orchard::uvm_model
