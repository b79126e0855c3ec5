// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Pages and chunks in the segments with the largest numbers, where a product of 32 bits would wrap around. The heap
/// has 32 TiB of addresses, none of which is accessed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "device/heap_ref.cuh"
#include "tests/simt/run_emulated.hpp"
#include "tests/support/heap_memory.cuh"

namespace orchard {
namespace {

using rig::heap_memory;
using simt::order;

class LastSegments : public ::testing::TestWithParam<std::uint32_t> {
protected:
    LastSegments() : heap_{max_segments} {
        heap_.view.base = reinterpret_cast<char*>(std::uintptr_t{1} << 46);
        // The segment cache serves all chunks of a test, and asks the host for nothing.
        heap_.view.cache_target = 1;
        heap_.view.cache_max = 1000;
    }
    [[nodiscard]] std::uint32_t segment() const { return GetParam(); }

    /// Returns the blocks that this many lanes of a warp get.
    std::vector<char*> allocate(std::uint32_t lanes, std::uint64_t bytes) {
        std::vector<char*> blocks(lanes);
        const heap_ref heap(heap_.view);
        run_on_one_warp(lanes, [&](std::uint32_t lane) { blocks[lane] = static_cast<char*>(heap.malloc(bytes)); });
        return blocks;
    }
    void free_all(const std::vector<char*>& blocks) {
        const heap_ref heap(heap_.view);
        run_on_one_warp(static_cast<std::uint32_t>(blocks.size()),
                        [&](std::uint32_t lane) { heap.free(blocks[lane]); });
        EXPECT_EQ(heap_.sum(device::counter::invalid_frees), 0u);
    }
    /// Expects that the blocks lie in `count` segments from `first` on, and do not overlap.
    void expect_inside(std::vector<char*> blocks, std::uint64_t bytes, std::uint32_t first, std::uint32_t count) {
        std::sort(blocks.begin(), blocks.end());
        char* end = heap_.view.base + (std::uint64_t{first} << segment_shift);
        for (char* const block : blocks) {
            ASSERT_GE(block, end);
            end = block + bytes;
        }
        ASSERT_LE(end, heap_.view.base + (std::uint64_t{first + count} << segment_shift));
    }
    [[nodiscard]] std::size_t pages_in_use() const {
        const auto* const words = heap_.view.bitmaps + std::uint64_t{segment()} * device::bitmap_words;
        std::size_t bits = 0;
        for (const auto& word : std::span(words, device::bitmap_words)) {
            bits += static_cast<std::size_t>(simt::popcount(word.load<order::relaxed>()));
        }
        return bits;
    }
    template <class Body>
    static void run_on_one_warp(std::uint32_t lanes, Body body) {
        simt::run_emulated({1, lanes}, [&](simt::thread_position at) { body(at.thread); });
    }

    heap_memory heap_;
};

INSTANTIATE_TEST_SUITE_P(Numbers, LastSegments,
                         ::testing::Values((1u << 20) - 1, 1u << 20, 1u << 21, max_segments - 1));

TEST_P(LastSegments, HavePagesOfTheirOwn) {
    for (const std::uint32_t c : {0u, 2u, 27u, 50u, class_count - 1}) {
        SCOPED_TRACE(testing::Message() << "class " << c);
        ASSERT_TRUE(rig::publish(heap_.view, 1, c, segment()));
        const std::vector<char*> blocks = allocate(std::min(class_pages(c), 32u), class_bytes(c));
        ASSERT_NO_FATAL_FAILURE(expect_inside(blocks, class_bytes(c), segment(), 1));
        EXPECT_EQ(pages_in_use(), blocks.size()) << "in the bitmap of this segment and no other";
        const heap_ref heap(heap_.view);
        EXPECT_EQ(heap.usable_size(blocks[0]), class_bytes(c));
        free_all(blocks);
        EXPECT_TRUE(device::slab_retire(heap_.view, 1, c, segment())) << "a page is still in use";
    }
}

TEST_P(LastSegments, HaveChunksOfTheirOwn) {
    const std::uint32_t first = segment() / 64 * 64 + 48;  // the last 16 segments of a word of the segment cache
    device::cache_put(heap_.view, {segment_index{first}, 16});
    const std::vector<char*> blocks = allocate(4, 1 << 20);
    ASSERT_NO_FATAL_FAILURE(expect_inside(blocks, 1 << 20, first, 16));
    EXPECT_EQ(device::cache_level(heap_.view), 14u);
    const std::vector<char*> one = allocate(1, 8 << 20);
    ASSERT_NO_FATAL_FAILURE(expect_inside(one, 8 << 20, first, 16));
    free_all(one);
    free_all(blocks);
    EXPECT_EQ(device::cache_level(heap_.view), 16u);
    EXPECT_EQ(heap_.cache_bits(), 16u);
}

}  // namespace
}  // namespace orchard
