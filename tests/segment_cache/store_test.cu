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

/// Returns true if the count of each class is right: no chunk is claimed, and `held` are there in all.
bool is_counted(const heap_memory& heap, std::uint64_t held) {
    std::uint64_t all = 0;
    for (const auto& count : heap.view.state->stored_count) {
        all += count.word.load<simt::order::relaxed>();
    }
    return all == held * device::chunk_count::chunk;
}

TEST(ChunkStore, ClassesAscendWithTheLength) {
    for (std::uint32_t n = 1; n < stored_chunk::max_leaves; ++n) {
        const std::uint32_t least = stored_chunk::rounded(n);
        ASSERT_LE(stored_chunk::class_of(n), stored_chunk::class_of(n + 1)) << n;
        ASSERT_GE(least, n);
        ASSERT_LE(least * 16, n * 17) << n;
        ASSERT_EQ(stored_chunk::rounded(least), least) << n;
        if (least <= stored_chunk::max_leaves) {
            // The least length of its class: any chunk of the class serves a request for n leaves.
            ASSERT_NE(stored_chunk::class_of(least - 1), stored_chunk::class_of(least)) << n;
        }
    }
    EXPECT_EQ(stored_chunk::class_of(13), 13u);
    EXPECT_EQ(stored_chunk::class_of(31), 31u);
    EXPECT_EQ(stored_chunk::class_of(33), 32u);
    EXPECT_EQ(stored_chunk::rounded(33), 34u);
    EXPECT_EQ(stored_chunk::rounded(1000), 1024u);
    EXPECT_EQ(stored_chunk::class_of(stored_chunk::max_leaves), chunk_store::classes - 1);
}

TEST(ChunkStore, GivesAChunkOfUpToTwoClassesMore) {
    struct expected {
        std::uint32_t has;
        std::uint32_t wanted;
        bool fits;
    };
    for (const expected e :
         {expected{12, 12, true}, expected{12, 11, true}, expected{12, 10, false}, expected{12, 13, false},
          expected{1, 1, true}, expected{2, 1, false}, expected{31, 30, true}, expected{33, 30, false},
          expected{36, 32, true}, expected{38, 32, false}, expected{33, 33, false}, expected{34, 33, true},
          expected{8192, 7500, true}, expected{8192, 7400, false}}) {
        heap_memory heap(heap_segments, 2);
        const stored_chunk c{64, e.has};
        ASSERT_TRUE(keep(heap, c));
        EXPECT_EQ(leaves_stored(heap), e.has);
        EXPECT_TRUE(is_counted(heap, 1));
        stored_chunk got{};
        ASSERT_EQ(take_from_store(heap.view, one_lane, e.wanted, &got), e.fits) << e.has << " for " << e.wanted;
        EXPECT_EQ(leaves_stored(heap), e.fits ? 0 : e.has);
        EXPECT_TRUE(is_counted(heap, e.fits ? 0 : 1));
        if (e.fits) {
            EXPECT_EQ(got.first, c.first);
            EXPECT_EQ(got.leaves, c.leaves);
            EXPECT_FALSE(take_from_store(heap.view, one_lane, e.wanted, &got)) << "twice";
            EXPECT_TRUE(is_counted(heap, 0));
        }
    }
}

TEST(ChunkStore, HoldsHalfOfTheHeapAtMost) {
    heap_memory heap(heap_segments, 64);
    std::uint32_t stored = 0;
    for (std::uint32_t first = 0; first < heap_segments; first += 2) {
        stored += keep(heap, {first * leaves_per_segment, 64}) ? 64 : 0;
    }
    EXPECT_EQ(stored, heap_segments * leaves_per_segment / 2);
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
    EXPECT_TRUE(is_counted(heap, stored));
    heap_memory none(heap_segments);
    stored_chunk got{};
    EXPECT_FALSE(keep(none, {0, 5}));
    EXPECT_FALSE(take_from_store(none.view, one_lane, 5, &got));
}

/// Puts of a class begin at the slot that the count names. If puts and takes raced, chunks may lie in other slots: a
/// request finds them in the same row and the next, and a put finds an empty slot there.
TEST(ChunkStore, FindsAChunkThatIsNotWhereTheCountSays) {
    heap_memory heap(heap_segments, 64);
    auto& count = heap.view.state->stored_count[stored_chunk::class_of(34)].word;
    constexpr std::uint64_t moved = 20 * device::chunk_count::one_unclaimed;
    count.fetch_add<simt::order::relaxed>(moved);
    for (std::uint32_t i = 0; i < 30; ++i) {  // in slots 20 to 49
        ASSERT_TRUE(keep(heap, {i * 2 * leaves_per_segment, 34}));
    }
    count.fetch_sub<simt::order::relaxed>(moved);
    std::set<std::uint32_t> seen;
    for (std::uint32_t i = 0; i < 30; ++i) {
        stored_chunk got{};
        ASSERT_TRUE(take_from_store(heap.view, one_lane, 33, &got)) << i;
        EXPECT_TRUE(seen.insert(got.first).second);
    }
    EXPECT_TRUE(is_counted(heap, 0));
}

/// A chunk far from the slot that the count names may not be found, but is not lost: the claim is given back, and a
/// spill finds it.
TEST(ChunkStore, GivesAClaimBack) {
    heap_memory heap(heap_segments, 64);
    auto& count = heap.view.state->stored_count[stored_chunk::class_of(34)].word;
    constexpr std::uint64_t moved = 1500 * device::chunk_count::one_unclaimed;
    count.fetch_add<simt::order::relaxed>(moved);
    ASSERT_TRUE(keep(heap, {0, 34}));
    count.fetch_sub<simt::order::relaxed>(moved);
    stored_chunk got{};
    const bool found = take_from_store(heap.view, one_lane, 34, &got);
    EXPECT_TRUE(is_counted(heap, found ? 0 : 1));
    ASSERT_TRUE(simt::run_emulated(simt::grid{1, 32}, [&](simt::thread_position) {
                    device::spill(heap.view, simt::converge());
                }).ok);
    EXPECT_EQ(device::cache_level(heap.view), found ? 0u : 1u);
    EXPECT_TRUE(is_counted(heap, 0));
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
    EXPECT_TRUE(is_counted(heap, 0));
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
    EXPECT_TRUE(is_counted(heap, 0));
    std::uint32_t all = 0;
    for (std::uint32_t leaves = 20; leaves < 23; ++leaves) {
        all += level_of(device::cached_portions(heap.view, leaves));
    }
    EXPECT_EQ(all, chunks);
}

}  // namespace
}  // namespace orchard
