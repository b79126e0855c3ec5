// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Section 4 of docs/uvm.md: preferred locations, accessed-by and read-mostly.

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"
#include "uvm/model/managed_space.hpp"

namespace orchard::uvm_model {
namespace {

using testing::big_pages;
using testing::computed_source;
using testing::model_of;
using testing::on_cpu;
using testing::on_gpu;
using testing::pages;
using testing::whole;

/// One warp reads or writes the first pages of a model of one segment, lane l page l, so often.
result touch(paging_model& model, access_kind kind, std::uint64_t times = 1) {
    computed_source source(
        segment_bytes, 1, times, [](auto, auto, std::uint32_t lane) { return lane * os_page_bytes; }, kind);
    return testing::run(model, source);
}

TEST(advice, preferred_on_the_cpu_maps_and_moves_nothing) {
    for (const bool populated : {true, false}) {
        paging_model model = model_of(segment_bytes);
        if (populated) {
            ASSERT_TRUE(model.populate({0, segment_bytes}, processor::cpu).ok());
        }
        ASSERT_TRUE(model.advise({0, segment_bytes}, advice::prefer_cpu).ok());
        const result r = touch(model, access_kind::write, 10);
        EXPECT_EQ(r.bytes_in() + r.bytes_out(), 0u);
        EXPECT_TRUE(on_gpu(model.space()).empty());
        EXPECT_EQ(r.remote_accesses, 320u);
        EXPECT_EQ(r.remote_bytes, 320u * model.machine().remote_access_bytes);
        EXPECT_EQ(r.distinct_faults, 32u) << "one a page, no growth, no tree (P2)";
        EXPECT_EQ(r.active_blocks, 0u);
        EXPECT_EQ(r.touched_pages, 32u);
    }
}

TEST(advice, accessed_by_maps_before_any_fault) {
    paging_model model = model_of(segment_bytes);
    ASSERT_TRUE(model.populate({0, segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(model.advise({0, segment_bytes}, advice::accessed_by).ok());
    const result r = touch(model, access_kind::atomic);
    EXPECT_EQ(r.raw_faults, 0u);
    EXPECT_EQ(r.remote_accesses, 32u);
    EXPECT_EQ(r.hits, 32u);
    EXPECT_TRUE(on_gpu(model.space()).empty());
    // Unset: they move.
    ASSERT_TRUE(model.advise({0, segment_bytes}, advice::no_accessed_by).ok());
    EXPECT_EQ(touch(model, access_kind::read).remote_accesses, 0u);
    EXPECT_EQ(on_gpu(model.space()), big_pages({0, 1}));
}

TEST(advice, accessed_by_memory_that_was_evicted_is_accessed_where_it_is) {
    paging_model model = model_of(2 * segment_bytes, 1);
    ASSERT_TRUE(model.advise({0, segment_bytes}, advice::accessed_by).ok());
    EXPECT_GT(touch(model, access_kind::write).populated_pages, 0u) << "first touch: on the GPU";
    ASSERT_TRUE(model.prefetch({segment_bytes, segment_bytes}, processor::gpu).ok());
    const result r = touch(model, access_kind::read);
    EXPECT_EQ(r.evictions, 1u);
    EXPECT_EQ(r.remote_accesses, 32u);
    EXPECT_EQ(r.raw_faults, 0u);
}

TEST(advice, read_mostly_copies_and_evicting_a_copy_moves_nothing) {
    managed_space space(2 * segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, 2 * segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({0, 2 * segment_bytes}, advice::read_mostly).ok());
    EXPECT_EQ(space.service(0, {pages({0}), {}}).pages_in, 16u);
    EXPECT_EQ(on_gpu(space), big_pages({0}));
    EXPECT_EQ(on_cpu(space), page_mask(whole));
    const work done = space.service(1, {pages({0}), {}});
    EXPECT_EQ(done.evictions, 1u);
    EXPECT_EQ(done.pages_out, 0u);
    EXPECT_EQ(space.counts().dropped_pages, 16u);
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

TEST(advice, a_write_to_read_mostly_memory_leaves_one_copy) {
    managed_space space(2 * segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, 2 * segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({0, 2 * segment_bytes}, advice::read_mostly).ok());
    (void)space.service(0, {pages({0}), {}});
    const work collapse = space.service(0, {{}, pages({3})});
    EXPECT_EQ(collapse.pages, 1u) << "a page that can be read faults when it is written";
    EXPECT_EQ(collapse.pages_in, 0u);
    EXPECT_EQ(on_cpu(space), page_mask(whole).without(pages({3})));
    EXPECT_EQ(space.service(1, {pages({0}), {}}).pages_out, 1u) << "what has one copy is written back";
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

TEST(advice, read_mostly_prefetches_are_copies) {
    managed_space space(segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({0, segment_bytes}, advice::read_mostly).ok());
    ASSERT_TRUE(space.prefetch({0, segment_bytes}, processor::gpu).ok());
    EXPECT_EQ(on_gpu(space), page_mask(whole));
    EXPECT_EQ(on_cpu(space), page_mask(whole));
    EXPECT_TRUE(space.validate().ok()) << space.validate();
    ASSERT_TRUE(space.advise({0, segment_bytes}, advice::no_read_mostly).ok());
    EXPECT_TRUE(on_cpu(space).empty());
    EXPECT_EQ(space.service(0, {{}, pages({0})}).pages, 0u) << "writable again";
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

TEST(advice, read_mostly_with_a_preferred_location_on_the_cpu_copies_for_reads_only) {
    managed_space space(segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({0, segment_bytes}, advice::read_mostly).ok());
    ASSERT_TRUE(space.advise({0, segment_bytes}, advice::prefer_cpu).ok());
    EXPECT_EQ(space.service(0, {pages({0}), {}}).pages_in, 1u) << "no tree: the preferred location is elsewhere";
    EXPECT_EQ(space.service(0, {{}, pages({0})}).pages_in, 0u);
    EXPECT_TRUE(on_gpu(space).empty()) << "the write leaves it where it is preferred";
    EXPECT_EQ(on_cpu(space), page_mask(whole));
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

// If the pages of one service go to several places, there is no prefetch (docs/uvm.md, section 1).
TEST(advice, a_service_with_several_destinations_prefetches_nothing) {
    managed_space space(segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, os_page_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({0, segment_bytes}, advice::accessed_by).ok());
    ASSERT_TRUE(space.discard({0, os_page_bytes}).ok());  // so that it faults
    (void)space.service(0, {{}, pages({0, 100})});
    EXPECT_EQ(on_gpu(space), pages({100}));
    (void)space.service(0, {{}, pages({200})});
    EXPECT_EQ(on_gpu(space), pages({100}) | big_pages({200 / 16}));
}

TEST(advice, accessed_by_and_discard_fault_once_more) {
    managed_space space(segment_bytes, 1);
    ASSERT_TRUE(space.populate({0, segment_bytes}, processor::cpu).ok());
    ASSERT_TRUE(space.advise({0, segment_bytes}, advice::accessed_by).ok());
    ASSERT_TRUE(space.discard({0, os_page_bytes}).ok());
    EXPECT_EQ(space.service(0, {{}, pages({0})}).pages, 1u);
    EXPECT_TRUE(on_gpu(space).empty());
    EXPECT_EQ(space.service(0, {{}, pages({0, 1})}).pages, 0u);
    EXPECT_TRUE(space.validate().ok()) << space.validate();
}

}  // namespace
}  // namespace orchard::uvm_model
