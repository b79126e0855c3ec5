// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The chunk store: which chunk serves which request, its limits, and its way into the segment cache.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <vector>

#include "device/segments/chunk_store.cuh"
#include "tests/simt/run_emulated.hpp"
#include "tests/support/heap_memory.cuh"

namespace orchard {
namespace {

using device::chunk_store;
using device::stored_chunk;
using rig::heap_memory;

constexpr simt::lane_mask one_lane = 1;
constexpr std::uint32_t heap_segments = 1024;  // 32,768 leaves

std::uint32_t leaves_stored(const heap_memory& heap) {
    return static_cast<std::uint32_t>(heap.view.state->stored_leaves.word.load<simt::order::relaxed>());
}

/// Puts a chunk into the store, and returns whether it has a place there.
bool keep(const heap_memory& heap, stored_chunk c) {
    device::chunk_pieces pieces{heap.view, c.first, c.leaves};
    return store_chunk(pieces);
}
/// The same, or into the segment cache.
void keep_or_put(const heap_memory& heap, stored_chunk c) {
    device::chunk_pieces pieces{heap.view, c.first, c.leaves};
    if (!store_chunk(pieces)) {
        put_pieces(pieces);
    }
}

TEST(ChunkStore, ClassesAscendWithTheLength) {
    for (std::uint32_t n = 1; n < stored_chunk::max_leaves; ++n) {
        ASSERT_LE(stored_chunk::class_of(n), stored_chunk::class_of(n + 1)) << n;
    }
    EXPECT_EQ(stored_chunk::class_of(13), 14u);
    EXPECT_LT(stored_chunk::class_of(stored_chunk::max_leaves), chunk_store::classes);
}

TEST(ChunkStore, GivesAChunkOfUpToAnEighthMore) {
    struct expected {
        std::uint32_t has;
        std::uint32_t wanted;
        bool fits;
    };
    for (const expected e :
         {expected{12, 12, true}, expected{12, 11, true}, expected{12, 10, false}, expected{12, 13, false},
          expected{1, 1, true}, expected{2, 1, false}, expected{31, 30, true}, expected{33, 30, false},
          expected{36, 32, true}, expected{37, 32, false}, expected{8000, 7200, true}}) {
        heap_memory heap(heap_segments, 2);
        const stored_chunk c{64, e.has};
        ASSERT_TRUE(keep(heap, c));
        EXPECT_EQ(leaves_stored(heap), e.has);
        stored_chunk got{};
        ASSERT_EQ(take_from_store(heap.view, one_lane, e.wanted, &got), e.fits) << e.has << " for " << e.wanted;
        EXPECT_EQ(leaves_stored(heap), e.fits ? 0 : e.has);
        if (e.fits) {
            EXPECT_EQ(got.first, c.first);
            EXPECT_EQ(got.leaves, c.leaves);
            EXPECT_FALSE(take_from_store(heap.view, one_lane, e.wanted, &got)) << "twice";
        }
    }
}

TEST(ChunkStore, HoldsAQuarterOfTheHeapAtMost) {
    heap_memory heap(heap_segments, 64);
    std::uint32_t stored = 0;
    for (std::uint32_t first = 0; first < heap_segments; first += 2) {
        stored += keep(heap, {first * leaves_per_segment, 64}) ? 64 : 0;
    }
    EXPECT_EQ(stored, heap_segments * leaves_per_segment / 4);
    EXPECT_EQ(leaves_stored(heap), stored);
    std::set<std::uint32_t> seen;
    for (stored_chunk got{}; take_from_store(heap.view, one_lane, 64, &got);) {
        EXPECT_TRUE(seen.insert(got.first).second);
    }
    EXPECT_EQ(seen.size(), stored / 64);
    EXPECT_EQ(leaves_stored(heap), 0u);
}

TEST(ChunkStore, RefusesWhatFindsNoSlot) {
    heap_memory heap(heap_segments, 1);
    std::uint32_t stored = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) {
        stored += keep(heap, {i * leaves_per_segment, 5}) ? 1 : 0;
    }
    EXPECT_EQ(stored, chunk_store::slots_in_row);
    EXPECT_EQ(leaves_stored(heap), stored * 5);
    heap_memory none(heap_segments);
    stored_chunk got{};
    EXPECT_FALSE(keep(none, {0, 5}));
    EXPECT_FALSE(take_from_store(none.view, one_lane, 5, &got));
}

/// A class of many rows, all of which hold shorter chunks than are wanted: the class above has one.
TEST(ChunkStore, SearchesTheNextClassAlthoughItsOwnIsFullOfShorterChunks) {
    heap_memory heap(heap_segments, 64);
    for (std::uint32_t i = 0; i < 100; ++i) {
        ASSERT_TRUE(keep(heap, {i * 3 * leaves_per_segment, 64}));
    }
    ASSERT_TRUE(keep(heap, {900 * leaves_per_segment, 84}));
    ASSERT_EQ(stored_chunk::class_of(64), stored_chunk::class_of(79));
    stored_chunk got{};
    EXPECT_TRUE(take_from_store(heap.view, one_lane, 79, &got));
    EXPECT_EQ(got.leaves, 84u);
}

/// Rows that were in use and are empty now do not hide the one with the chunk.
TEST(ChunkStore, FindsAChunkBehindManyEmptyRows) {
    heap_memory heap(heap_segments, 64);
    std::uint32_t stored = 0;
    for (std::uint32_t i = 0; i < 200; ++i) {
        stored += keep(heap, {i * 2 * leaves_per_segment, 33}) ? 1 : 0;
    }
    ASSERT_GT(stored, 100u);
    ASSERT_TRUE(simt::run_emulated(simt::grid{1, 32}, [&](simt::thread_position) {
                    device::spill(heap.view, simt::converge());
                }).ok);
    ASSERT_EQ(leaves_stored(heap), 0u);
    for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(keep(heap, {900 * leaves_per_segment, 33}));
        stored_chunk got{};
        ASSERT_TRUE(take_from_store(heap.view, one_lane, 33, &got)) << i;
    }
}

TEST(ChunkStore, SpillsSegmentsAndTailsIntoTheSegmentCache) {
    heap_memory heap(heap_segments, 4);
    ASSERT_TRUE(keep(heap, {10 * leaves_per_segment, 3 * leaves_per_segment + 7}));
    ASSERT_TRUE(keep(heap, {20 * leaves_per_segment, 2 * leaves_per_segment}));
    ASSERT_TRUE(keep(heap, {30 * leaves_per_segment + 4, 9}));
    const heap_memory& h = heap;
    ASSERT_TRUE(simt::run_emulated(simt::grid{1, 32}, [&](simt::thread_position) {
                    device::spill(h.view, simt::converge());
                }).ok);
    EXPECT_EQ(leaves_stored(heap), 0u);
    EXPECT_EQ(device::cache_level(heap.view), 5u);
    EXPECT_EQ(level_of(device::cached_portions(heap.view, 7)), 1u);
    EXPECT_EQ(level_of(device::cached_portions(heap.view, 9)), 1u);
    segment_run run;
    EXPECT_TRUE(device::cache_take(heap.view, one_lane, 3, &run));
    EXPECT_EQ(run, (segment_run{segment_index{10}, 3}));
}

/// All lanes of several warps store and take: each chunk has one owner at a time, and none is lost.
TEST(ChunkStore, GivesEachChunkToOneGroup) {
    heap_memory heap(heap_segments, 2);
    constexpr std::uint32_t chunks = 40;
    for (std::uint32_t i = 0; i < chunks; ++i) {
        keep_or_put(heap, {i * leaves_per_segment, 20 + i % 3});
    }
    std::vector<simt::device_word<std::uint32_t>> owners(chunks);
    std::atomic<int> twice{0};
    const auto result = simt::run_emulated(simt::grid{4, 64}, [&](simt::thread_position at) {
        const simt::lane_mask mask = simt::lane_mask{1} << simt::lane_id();
        for (std::uint32_t i = 0; i < 50; ++i) {
            stored_chunk got{};
            if (take_from_store(heap.view, mask, 18 + (at.thread + i) % 4, &got)) {
                auto& owner = owners[got.first / leaves_per_segment];
                twice += owner.fetch_add<simt::order::relaxed>(1) != 0 ? 1 : 0;
                owner.fetch_sub<simt::order::relaxed>(1);
                keep_or_put(heap, got);
            }
        }
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(twice.load(), 0);
    ASSERT_TRUE(simt::run_emulated(simt::grid{1, 32}, [&](simt::thread_position) {
                    device::spill(heap.view, simt::converge());
                }).ok);
    std::uint32_t all = 0;
    for (std::uint32_t leaves = 20; leaves < 23; ++leaves) {
        all += level_of(device::cached_portions(heap.view, leaves));
    }
    EXPECT_EQ(all, chunks);
}

}  // namespace
}  // namespace orchard
