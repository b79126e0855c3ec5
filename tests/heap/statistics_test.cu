// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// heap::stats() after sequences whose numbers are known.

#include "tests/support/heap_fixture.hpp"
#include "tests/support/heap_peer.hpp"

namespace orchard::test {
namespace {

class heap_statistics : public heap_contract {
protected:
    /// Only the emulated device guarantees that lanes which can converge do so.
    [[nodiscard]] bool groups_are_known() { return h().executor().kind == simt::device_kind::emulated; }
};
INSTANTIATE_TEST_SUITE_P(all, heap_statistics, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_statistics, of_a_new_heap) {
    const statistics s = settled_stats();
    statistics expected;
    expected.capacity_bytes = GetParam().capacity;
    expected.range_bytes = h().configuration().range;
    expected.metadata_bytes = s.metadata_bytes;
    expected.segments_committed = s.segments_committed;
    expected.segments_free = s.segments_committed;
    expected.committed_bytes = segments(s.segments_committed);
    expected.peak_committed_bytes = s.peak_committed_bytes;
    expected.service_polls = s.service_polls;
    expected.service_sleeps = s.service_sleeps;
    EXPECT_EQ(to_text(s), to_text(expected));
    EXPECT_GT(s.metadata_bytes, 0u);
    EXPECT_GE(s.peak_committed_bytes, s.committed_bytes);
}

TEST_P(heap_statistics, of_pages) {
    const std::vector<block> warp = allocate(std::vector<std::uint64_t>(32, 64), 32);
    statistics s = settled_stats();
    EXPECT_EQ(s.allocations, 32u);
    EXPECT_EQ(s.allocated_bytes, 32u * 64);
    EXPECT_EQ(s.pages_in_use, 32u);
    EXPECT_GE(s.searches, 1u);  // a new heap has no slabs
    EXPECT_EQ(s.slabs_published, 1u);
    EXPECT_EQ(s.slabs_in_use, 1u);
    EXPECT_EQ(s.chunk_allocations, 0u);
    EXPECT_EQ(s.segments_granted, 1 + s.segments_in_cache);
    EXPECT_GE(s.peak_segments_granted, s.segments_granted);
    EXPECT_EQ(s.segments_free + s.segments_granted, s.segments_committed);
    if (groups_are_known()) {
        EXPECT_EQ(s.groups, 1u);
        EXPECT_EQ(s.multi_lane_groups, 1u);
    }
    std::vector<std::uint64_t> two_classes(32, 64);
    two_classes[3] = two_classes[30] = 128;
    const std::vector<block> mixed = allocate(two_classes, 32);
    const std::vector<block> alone = allocate(std::vector<std::uint64_t>(5, 64), 1);
    s = settled_stats();
    EXPECT_EQ(s.allocations, 69u);
    EXPECT_EQ(s.allocated_bytes, 67u * 64 + 2 * 128);
    EXPECT_EQ(s.slabs_in_use, 2u);
    if (groups_are_known()) {
        EXPECT_EQ(s.groups, 8u);
        EXPECT_EQ(s.multi_lane_groups, 3u);
    }
    free_all(warp);
    free_all(mixed);
    free_all(alone);
    s = settled_stats();
    EXPECT_EQ(s.frees, 69u);
    EXPECT_EQ(s.pages_in_use, 0u);
    EXPECT_EQ(s.slabs_in_use, 2u);
    ASSERT_TRUE(h().trim().ok());
    s = settled_stats();
    EXPECT_EQ(s.slabs_retired, 2u);
    EXPECT_EQ(s.slabs_published, 2u);
    EXPECT_EQ(s.segments_granted, 0u);
    EXPECT_EQ(s.segments_free, s.segments_committed);
    EXPECT_EQ(s.failed_allocations, 0u);
    EXPECT_EQ(s.invalid_frees, 0u);
    EXPECT_EQ(s.abandoned, 0u);
}

TEST_P(heap_statistics, of_each_class) {
    std::vector<std::uint64_t> sizes(32, 64);
    sizes[3] = sizes[30] = 5000;
    const std::vector<block> blocks = allocate(sizes, 32);
    statistics s = settled_stats();
    const class_statistics& small = s.classes[class_of(64)];
    const class_statistics& large = s.classes[class_of(5000)];
    EXPECT_EQ(small.page_bytes, 64u);
    EXPECT_EQ(small.slabs, 1u);
    EXPECT_EQ(small.pages_in_use, 30u);
    EXPECT_EQ(small.pages_free, 32'768u - 30);
    EXPECT_EQ(small.allocations, 30u);
    EXPECT_EQ(small.nulls, 0u);
    EXPECT_EQ(large.page_bytes, 5120u);
    EXPECT_EQ(large.slabs, 1u);
    EXPECT_EQ(large.pages_in_use, 2u);
    EXPECT_EQ(large.pages_free, 407u);
    EXPECT_EQ(large.allocations, 2u);
    if (groups_are_known()) {
        EXPECT_EQ(small.groups, 1u);
        EXPECT_EQ(small.multi_lane_groups, 1u);
    }
    for (const class_statistics& one : s.classes) {
        EXPECT_EQ(one.in_use(), one.page_bytes == 64 || one.page_bytes == 5120) << one.page_bytes;
    }
    free_all(blocks);
    ASSERT_TRUE(h().trim().ok());
    s = settled_stats();
    EXPECT_EQ(s.classes[class_of(64)].slabs, 0u);
    EXPECT_EQ(s.classes[class_of(64)].pages_in_use, 0u);
    EXPECT_EQ(s.classes[class_of(64)].pages_free, 0u);
    EXPECT_EQ(s.classes[class_of(64)].allocations, 30u);
    EXPECT_TRUE(s.classes[class_of(64)].in_use());
}

TEST_P(heap_statistics, nulls_are_counted_with_their_class) {
    const std::uint64_t pages = heap_segments() * class_pages(class_of(512 << 10));
    const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(pages + 3, 512 << 10), 32);
    const statistics s = settled_stats();
    const class_statistics& one = s.classes[class_of(512 << 10)];
    EXPECT_EQ(one.nulls, s.failed_allocations);
    EXPECT_GE(one.nulls, 3u);
    EXPECT_EQ(one.allocations + one.nulls, pages + 3);
    EXPECT_EQ(one.pages_in_use, one.allocations);
    free_all(blocks);
}

TEST_P(heap_statistics, of_chunks) {
    const std::vector<block> warp = allocate(std::vector<std::uint64_t>(3, segments(1)), 32);
    const std::vector<block> alone = allocate(std::vector<std::uint64_t>(2, segments(1) + 1), 1);
    statistics s = settled_stats();
    EXPECT_EQ(s.allocations, 5u);
    EXPECT_EQ(s.allocated_bytes, segments(5) + 2);
    if (groups_are_known()) {
        EXPECT_EQ(s.groups, 3u);
        EXPECT_EQ(s.multi_lane_groups, 1u);
        EXPECT_EQ(s.chunk_allocations, 3u);
        EXPECT_EQ(s.live_chunks, 3u);
        // 3 for the warp; one each for those alone, and one for its tail of one leaf.
        EXPECT_EQ(s.segments_granted, 7 + s.segments_in_cache);
        EXPECT_EQ(s.portions_granted, 2u);
        EXPECT_EQ(s.portion_blocks, 2u);
    }
    EXPECT_EQ(s.pages_in_use, 0u);
    EXPECT_EQ(s.slabs_in_use, 0u);
    EXPECT_EQ(s.searches, 0u);
    EXPECT_EQ(s.reservations, 0u);
    free_all({warp[0], warp[2]});
    const std::uint64_t live = settled_stats().live_chunks;
    if (groups_are_known()) {
        EXPECT_EQ(live, s.live_chunks);  // the three were one chunk, of which one lane still holds its block
    } else {
        EXPECT_LE(live, s.live_chunks);
        EXPECT_GE(live + 2, s.live_chunks);
    }
    free_all({warp[1], alone[0], alone[1]});
    s = settled_stats();
    EXPECT_EQ(s.live_chunks, 0u);
    EXPECT_EQ(s.frees, 5u);
    EXPECT_EQ(s.segments_granted, s.segments_in_cache + s.portion_blocks);
    EXPECT_EQ(s.portions_granted, s.portions_in_cache);
    EXPECT_GE(s.peak_segments_granted, 7u);
}

TEST_P(heap_statistics, refused_frees_keep_the_first_address) {
    const block b = allocate_one(100);
    free_all({{b.address + 4, 0}}, {}, 1);
    free_all({{b.address + 8, 0}}, {}, 1);
    EXPECT_EQ(settled_stats().invalid_frees, 2u);
    EXPECT_EQ(settled_stats().frees, 0u);
    EXPECT_EQ(heap_peer(h()).first_invalid_free(), b.address + 4);
}

TEST_P(heap_statistics, metadata_stays_below_one_percent_beside_the_mailbox) {
    const device::heap_view view = h().ref().view();
    const std::uint64_t mailbox =
        mailbox::device_part::bytes(view.mailbox.shape) + mailbox::host_part::bytes(view.mailbox.shape);
    const std::uint64_t fixed = sizeof(device::heap_state) + sizeof(device::host_free_ring) + mailbox;
    // An elastic heap commits its metadata by granules, and has them for addresses that may never have memory.
    const bool elastic = h().configuration().backing == backing_option::elastic;
    const std::uint64_t granules = elastic ? 8 * segment_bytes : 0;
    EXPECT_LE(settled_stats().metadata_bytes - fixed, GetParam().capacity / 100 + granules);
}

}  // namespace
}  // namespace orchard::test
