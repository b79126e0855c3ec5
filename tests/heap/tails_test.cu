// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Chunks that do not fill whole segments: their tails share segments, are taken from the segment cache, and return to
// the host.

#include <random>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Thread i queries the usable size of block i.
struct size_of_each {
    heap_ref heap;
    const block* blocks;
    std::uint64_t* sizes;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (const std::uint64_t i = at.global_thread(); i < count) {
            sizes[i] = heap.usable_size(reinterpret_cast<void*>(blocks[i].address));
        }
    }
};

class heap_tails : public heap_contract {
protected:
    [[nodiscard]] bool groups_are_known() { return GetParam().device == device_option::emulated; }
    [[nodiscard]] bool has_cache() { return GetParam().cached_segments != 0; }
    /// Bytes of `n` leaves.
    static constexpr std::uint64_t leaves(std::uint64_t n) { return n * big_page_bytes; }
    void use_padded() {
        options padded = GetParam().values();
        padded.portions = portion_policy::padded;
        remake(padded);
    }
    /// Sizes of lanes, from the whole range of those that become chunks, with sums of a few segments at most.
    static std::vector<std::uint64_t> random_sizes(std::uint32_t seed, std::size_t count) {
        std::mt19937 random(seed);
        std::vector<std::uint64_t> sizes;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t most = std::uint64_t{1} << (16 + random() % 6);
            sizes.push_back(1 + random() % most);
        }
        return sizes;
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_tails, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_tails, share_a_segment) {
    const std::vector<block> blocks = allocate({leaves(9), leaves(9), leaves(9)}, 1);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
    const statistics s = settled_stats();
    EXPECT_EQ(s.live_chunks, 3u);
    EXPECT_EQ(s.portion_blocks, 1u);
    EXPECT_EQ(s.portions_granted, 3u);
    EXPECT_EQ(s.segments_granted, 1 + s.segments_in_cache);
    stamp(blocks);
    expect_stamped(blocks);
    free_all(blocks);
    expect_empty();
}

TEST_P(heap_tails, follow_their_segments) {
    const std::vector<block> blocks = allocate({segments(1) + leaves(3), segments(2) + 1, leaves(31)}, 1);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
    stamp(blocks);
    expect_stamped(blocks);
    EXPECT_EQ(settled_stats().portions_granted, 3u);
    free_all(blocks, {2, 0, 1}, 1);
    expect_empty();
}

TEST_P(heap_tails, come_back_without_a_round_trip) {
    if (!has_cache() || GetParam().backing == backing_option::managed) {
        GTEST_SKIP() << "needs a segment cache that keeps much";
    }
    for (const std::uint64_t bytes : {leaves(10), segments(1) + leaves(5)}) {
        free_all(allocate({bytes, bytes}, 1));
        const std::uint64_t host_requests = settled_stats().host_requests;
        for (int i = 0; i < 5; ++i) {
            const std::vector<block> again = allocate({bytes, bytes}, 1);
            ASSERT_NO_FATAL_FAILURE(expect_disjoint(again));
            free_all(again);
        }
        EXPECT_EQ(settled_stats().host_requests, host_requests) << bytes << " bytes";
    }
    expect_empty();
}

TEST_P(heap_tails, of_a_whole_warp_take_little_more_than_was_asked_for) {
    // One lane allocates 4 MB, two lanes allocate 600 KB each.
    if (heap_segments() < 4) {
        GTEST_SKIP() << "needs a larger heap";
    }
    const std::uint64_t asked = (4u << 20) + 2 * (600u << 10);
    const std::vector<block> blocks = allocate({600 << 10, 4 << 20, 600 << 10}, 32);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
    const statistics s = settled_stats();
    if (groups_are_known()) {
        EXPECT_EQ(s.live_chunks, 1u);
        EXPECT_EQ(s.portions_granted, 1u) << "the tail: the rest of its block is for others";
        EXPECT_EQ(s.segments_granted, 3 + s.segments_in_cache);
        EXPECT_LE(segments(2) + leaves(19), asked * 5 / 4);
    }
    free_all(blocks, {}, 32);
    expect_empty();
}

TEST_P(heap_tails, one_lane_of_many_holds_the_chunk) {
    const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(8, 600 << 10), 32);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
    if (groups_are_known()) {
        EXPECT_EQ(settled_stats().live_chunks, 1u);
    }
    free_all({blocks.begin() + 1, blocks.end()});
    const statistics s = settled_stats();
    if (groups_are_known()) {
        EXPECT_EQ(s.live_chunks, 1u);
    }
    EXPECT_EQ(s.frees, 7u);
    free_all({blocks[0]});
    EXPECT_EQ(settled_stats().live_chunks, 0u);
    free_all({blocks[0]});
    EXPECT_EQ(settled_stats().invalid_frees, 1u) << "twice";
    expect_empty();
}

TEST_P(heap_tails, a_block_is_what_usable_size_says) {
    const std::vector<std::uint64_t> sizes(5, 600'000);
    const std::vector<block> blocks = allocate(sizes, 32);
    const auto them = array_of(blocks);
    const auto sizes_found = array<std::uint64_t>(blocks.size());
    launch(simt::grid_for(blocks.size(), 32), size_of_each{h().ref(), them.data(), sizes_found.data(), blocks.size()});
    for (const std::uint64_t bytes : to_host(sizes_found)) {
        EXPECT_GE(bytes, 600'000u);
        EXPECT_LT(bytes, 600'000u + 256);
    }
    free_all(blocks);
    expect_empty();
}

TEST_P(heap_tails, random_warps_come_and_go) {
    for (const bool padded : {false, true}) {
        if (padded) {
            use_padded();
        }
        std::vector<block> before;
        for (std::uint32_t round = 0; round < 6; ++round) {
            std::vector<block> now = allocate(random_sizes(round, 24), round % 2 == 0 ? 32 : 7);
            std::erase_if(now, [](const block& b) { return b.address == 0; });  // the heap may be too small
            std::vector<block> all = before;
            all.insert(all.end(), now.begin(), now.end());
            ASSERT_NO_FATAL_FAILURE(expect_disjoint(all));
            stamp(now);
            expect_stamped(now);
            free_all(before, {}, 5);
            expect_valid("after a round");
            before = now;
        }
        free_all(before);
        expect_empty();
    }
}

}  // namespace
}  // namespace orchard::test
