// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A slab's life, seen by one group: published, claimed from, retired.

#include <gtest/gtest.h>

#include <vector>

#include "device/reclaim/reclaim.cuh"
#include "tests/simt/run_emulated.hpp"
#include "tests/support/heap_memory.cuh"

namespace orchard {
namespace {

using device::descriptor;
using device::segment_kind;
using device::slab_retire;
using rig::heap_memory;
using simt::order;

constexpr simt::lane_mask alone = 1;

std::uint64_t descriptor_of(const heap_memory& heap, std::uint32_t segment) {
    return heap.view.descriptor(segment).load<order::acquire>();
}

class EveryClass : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(EveryClass, HandsOutEachPageOnceAndThenNone) {
    const std::uint32_t c = GetParam();
    heap_memory heap(3);
    ASSERT_TRUE(rig::publish(heap.view, alone, c, 1));
    EXPECT_EQ(descriptor::kind(descriptor_of(heap, 1)), segment_kind::slab);
    EXPECT_EQ(descriptor::page_class(descriptor_of(heap, 1)), c);
    std::uint32_t pages = 0;
    for (std::uint32_t word = 0; word < class_words(c); ++word) {
        std::uint64_t seen = 0;
        for (std::uint32_t want = 1; seen != class_word_mask(c, word); want = want % 40 + 1) {
            const std::uint64_t won = rig::claim(heap.view, c, 1, word, want);
            ASSERT_NE(won, 0u);
            ASSERT_EQ(won & seen, 0u);
            ASSERT_LE(static_cast<std::uint32_t>(simt::popcount(won)), want);
            seen |= won;
        }
        EXPECT_EQ(rig::claim(heap.view, c, 1, word, 1), 0u) << "the word is full";
        pages += static_cast<std::uint32_t>(simt::popcount(seen));
    }
    EXPECT_EQ(pages, class_pages(c));
    EXPECT_FALSE(slab_retire(heap.view, alone, c, 1));
    for (std::uint32_t word = 0; word < class_words(c); ++word) {
        heap.view.bitmap(1)[word].fetch_and<order::release>(~class_word_mask(c, word));
    }
    EXPECT_TRUE(slab_retire(heap.view, alone, c, 1));
    EXPECT_TRUE(heap.bitmaps_are_clear());
}

// The smallest, one with an odd number of pages, one word, and those that fill part of a word.
INSTANTIATE_TEST_SUITE_P(Classes, EveryClass, ::testing::Values(0u, 1u, 2u, 4u, 13u, 27u, 39u, 41u, 50u, 53u, 55u));

TEST(Slab, OfAnotherClassIsNotClaimedFrom) {
    heap_memory heap(2);
    EXPECT_EQ(rig::claim(heap.view, 5, 0, 0, 4), 0u) << "no slab at all";
    ASSERT_TRUE(rig::publish(heap.view, alone, 5, 0));
    EXPECT_EQ(rig::claim(heap.view, 6, 0, 0, 4), 0u);
    EXPECT_TRUE(heap.bitmaps_are_clear()) << "a claim that came to nothing leaves no bit";
    EXPECT_NE(rig::claim(heap.view, 5, 0, 0, 4), 0u);
    EXPECT_FALSE(slab_retire(heap.view, alone, 6, 0)) << "nor retired";
    EXPECT_FALSE(slab_retire(heap.view, alone, 5, 1)) << "no slab";
}

/// Publishes this many slabs, of which one has a page in use.
void publish_slabs(heap_memory& heap, std::uint32_t c, std::uint32_t slabs, std::uint32_t used) {
    for (std::uint32_t i = 0; i < slabs; ++i) {
        ASSERT_TRUE(rig::publish(heap.view, alone, c, i));
    }
    ASSERT_NE(rig::claim(heap.view, c, used, 0, 1), 0u);
    ASSERT_EQ(heap.view.state->slabs[c].spread.load<order::relaxed>(), slabs);
}

// Otherwise pages would be searched where no slab exists.
TEST(Slab, EmptyOnesLeaveTheTableFromItsEndDown) {
    constexpr std::uint32_t c = 20;
    heap_memory heap(11);
    ASSERT_NO_FATAL_FAILURE(publish_slabs(heap, c, 11, 4));
    EXPECT_EQ(device::retire_empty_slabs(heap.view, alone, c), 10u);
    EXPECT_EQ(heap.view.state->slabs[c].spread.load<order::relaxed>(), 5u);
}

TEST(Slab, EmptyOnesLeaveTheTableFromItsEndDownWhateverLanesLookForThem) {
    constexpr std::uint32_t c = 20;
    constexpr simt::lane_mask some = 0x212;
    heap_memory heap(29);
    ASSERT_NO_FATAL_FAILURE(publish_slabs(heap, c, 29, 6));
    const auto result = simt::run_emulated({1, 32}, [&](simt::thread_position) {
        if ((some >> simt::lane_id() & 1) != 0) {
            EXPECT_EQ(device::retire_empty_slabs(heap.view, some, c), 28u);
        }
    });
    EXPECT_TRUE(result.ok) << result.error;
    EXPECT_EQ(heap.view.state->slabs[c].spread.load<order::relaxed>(), 7u);
}

TEST(Slab, RetiringIsRefusedWhateverPageIsInUse) {
    constexpr std::uint32_t c = 20;
    heap_memory heap(1);
    ASSERT_TRUE(rig::publish(heap.view, alone, c, 0));
    const std::uint64_t before = descriptor_of(heap, 0);
    for (std::uint32_t page = 0; page < class_pages(c); page += page % 64 == 63 ? 1 : 21) {
        auto& word = heap.view.bitmap(0)[page / 64];
        word.fetch_or<order::relaxed>(std::uint64_t{1} << (page % 64));
        EXPECT_FALSE(slab_retire(heap.view, alone, c, 0)) << "page " << page;
        EXPECT_EQ(word.load<order::relaxed>(), std::uint64_t{1} << (page % 64)) << "nothing has changed";
        word.fetch_and<order::relaxed>(0);
        ASSERT_TRUE(heap.bitmaps_are_clear()) << "page " << page;
    }
    EXPECT_EQ(descriptor_of(heap, 0), before);
    EXPECT_TRUE(slab_retire(heap.view, alone, c, 0));
}

TEST(Slab, RetiringByAWarpIsRefusedWhateverPageIsInUse) {
    constexpr std::uint32_t c = 0;  // 2,048 words: 64 a lane
    heap_memory heap(1);
    ASSERT_TRUE(rig::publish(heap.view, alone, c, 0));
    for (const std::uint32_t used : {0u, 31u * 64, 32u * 64, 77777u, class_pages(c) - 1, class_pages(c)}) {
        if (used < class_pages(c)) {
            heap.view.bitmap(0)[used / 64].fetch_or<order::relaxed>(std::uint64_t{1} << (used % 64));
        }
        simt::device_word<std::uint32_t> retired{0};
        const auto result = simt::run_emulated({1, 32}, [&](simt::thread_position at) {
            const bool ok = slab_retire(heap.view, simt::converge(), c, 0);
            if (at.thread == 0 && ok) {
                retired.store<order::relaxed>(1);
            }
        });
        ASSERT_TRUE(result.ok) << result.error;
        EXPECT_EQ(retired.load<order::relaxed>(), used < class_pages(c) ? 0u : 1u) << "page " << used;
        if (used < class_pages(c)) {
            EXPECT_EQ(heap.view.bitmap(0)[used / 64].exchange<order::relaxed>(0), std::uint64_t{1} << (used % 64));
        }
        ASSERT_TRUE(heap.bitmaps_are_clear()) << "page " << used;
    }
}

TEST(Slab, EachIncarnationHasAGenerationOfItsOwn) {
    heap_memory heap(1);
    std::vector<std::uint64_t> seen;
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(rig::publish(heap.view, alone, 30, 0));
        seen.push_back(descriptor::generation_field::get(descriptor_of(heap, 0)));
        ASSERT_TRUE(slab_retire(heap.view, alone, 30, 0));
        seen.push_back(descriptor::generation_field::get(descriptor_of(heap, 0)));
        EXPECT_EQ(descriptor::kind(descriptor_of(heap, 0)), segment_kind::none);
    }
    for (std::size_t i = 0; i < seen.size(); ++i) {
        EXPECT_EQ(seen[i], i + 1);
    }
    EXPECT_EQ(heap.sum(device::counter::slabs_published), 5u);
    EXPECT_EQ(heap.sum(device::counter::slabs_retired), 5u);
}

TEST(SlabTable, ReusesItsHoles) {
    constexpr std::uint32_t segments = 40;
    constexpr std::uint32_t c = 55;
    heap_memory heap(segments);
    auto& head = heap.view.state->slabs[c];
    for (std::uint32_t s = 0; s < segments; ++s) {
        ASSERT_TRUE(rig::publish(heap.view, alone, c, s));
        EXPECT_EQ(heap.view.records[s].slab_index.get(), s);
        EXPECT_EQ(descriptor::extent(descriptor_of(heap, s)), page_reciprocal(c));
        EXPECT_EQ(heap.view.table(c)[s].load<order::relaxed>(), s + 1);
    }
    // As if reservations had been made for all of it.
    head.high_water.store<order::relaxed>(std::uint64_t{segments} * class_pages(c));
    for (const std::uint32_t s : {17u, 39u, 3u, 5u}) {
        ASSERT_TRUE(slab_retire(heap.view, alone, c, s));
        EXPECT_EQ(heap.view.table(c)[s].load<order::relaxed>(), 0u);
    }
    EXPECT_EQ(head.high_water.load<order::relaxed>(), 3u * class_pages(c)) << "the next slab goes to the first hole";
    EXPECT_EQ(head.count.load<order::relaxed>(), segments);
    for (const std::uint32_t s : {5u, 3u, 17u, 39u}) {
        ASSERT_TRUE(rig::publish(heap.view, alone, c, s));
        const std::uint32_t place = heap.view.records[s].slab_index.get();
        EXPECT_EQ(heap.view.table(c)[place].load<order::relaxed>(), s + 1);
    }
    EXPECT_EQ(head.count.load<order::relaxed>(), segments);
}

TEST(SlabTable, ReusesItsHolesForAWholeWarpToo) {
    constexpr std::uint32_t segments = 100;
    constexpr std::uint32_t c = 55;
    heap_memory heap(segments);
    const auto result = simt::run_emulated({1, 32}, [&](simt::thread_position) {
        const simt::lane_mask mask = simt::converge();
        for (std::uint32_t s = 0; s < segments; ++s) {
            rig::publish(heap.view, mask, c, s);
        }
        for (std::uint32_t s = 70; s < segments; s += 7) {
            slab_retire(heap.view, mask, c, s);
        }
        for (std::uint32_t s = 70; s < segments; s += 7) {
            rig::publish(heap.view, mask, c, s);
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    auto& head = heap.view.state->slabs[c];
    EXPECT_EQ(head.count.load<order::relaxed>(), segments);
    for (std::uint32_t s = 0; s < segments; ++s) {
        const std::uint32_t place = heap.view.records[s].slab_index.get();
        ASSERT_LT(place, segments);
        EXPECT_EQ(heap.view.table(c)[place].load<order::relaxed>(), s + 1);
    }
}

TEST(SlabTable, ThatIsFullRefusesAndStaysAsItIs) {
    constexpr std::uint32_t c = 55;
    heap_memory heap(2);
    ASSERT_TRUE(rig::publish(heap.view, alone, c, 0));
    ASSERT_TRUE(rig::publish(heap.view, alone, c, 1));
    EXPECT_FALSE(rig::publish(heap.view, alone, c, 1));
    EXPECT_EQ(heap.view.state->slabs[c].count.load<order::relaxed>(), 2u);
    EXPECT_EQ(heap.view.table(c)[0].load<order::relaxed>(), 1u);
    EXPECT_EQ(heap.view.table(c)[1].load<order::relaxed>(), 2u);
}

}  // namespace
}  // namespace orchard
