// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The memory of a warp's chunk that a lane holds by keeping its block, and the option that limits it.

#include "device/heap_arrays_impl.cuh"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Each lane of a warp gets an interleaved array; all but lane `keeper` free theirs.
struct keep_one_array {
    heap_ref heap;
    std::uint64_t count;
    std::uint32_t keeper;
    lane_array<std::uint32_t>* kept;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto mine = heap.allocate_array<std::uint32_t>(count, layout::interleaved(tile::b4));
        if (at.thread == keeper) {
            *kept = mine;
        } else {
            heap.free_array(mine);
        }
    }
};

struct free_the_array {
    heap_ref heap;
    lane_array<std::uint32_t>* kept;
    ORCHARD_FN void operator()(simt::thread_position) const { heap.free_array(*kept); }
};

class heap_chunk_usage : public heap_contract {
protected:
    [[nodiscard]] bool groups_are_known() { return GetParam().device == device_option::emulated; }
    void use_lanes(int most) {
        options o = GetParam().values();
        o.chunk_lanes = most;
        remake(o);
    }
    chunk_usage usage() {
        const absl::StatusOr<chunk_usage> u = h().chunks();
        EXPECT_TRUE(u.ok()) << u.status();
        return u.ok() ? *u : chunk_usage{};
    }
    void free_all_but_one(const std::vector<block>& blocks, std::size_t kept) {
        std::vector<block> others = blocks;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(kept));
        free_all(others, {}, 32);
    }
};
INSTANTIATE_TEST_SUITE_P(all, heap_chunk_usage, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_chunk_usage, of_a_heap_without_chunks) {
    const block page = allocate_one(100);
    const chunk_usage u = usage();
    EXPECT_EQ(u.chunks, 0u);
    EXPECT_EQ(u.held_bytes, 0u);
    EXPECT_EQ(u.held_over_live(), 1);
    free_all({page});
}

TEST_P(heap_chunk_usage, counts_what_is_held_and_what_is_live) {
    const std::uint64_t bytes = 600 << 10;
    const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(8, bytes), 32);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
    const chunk_usage all = usage();
    EXPECT_EQ(all.lanes, 8u);
    EXPECT_EQ(all.live_lanes, 8u);
    EXPECT_EQ(all.live_bytes, 8 * bytes);
    EXPECT_GE(all.held_bytes, all.live_bytes);
    EXPECT_LE(all.held_bytes, segments(3)) << "8 blocks of 600 KiB, rounded up to leaves";
    free_all_but_one(blocks, 3);
    const chunk_usage one = usage();
    EXPECT_EQ(one.live_lanes, 1u);
    EXPECT_EQ(one.live_bytes, bytes);
    if (groups_are_known()) {
        EXPECT_EQ(one.chunks, 1u);
        EXPECT_EQ(one.held_bytes, all.held_bytes) << "the last lane holds the whole chunk";
        EXPECT_GT(one.held_over_live(), 7);
    }
    free_all({blocks[3]});
    EXPECT_EQ(usage().chunks, 0u);
}

TEST_P(heap_chunk_usage, of_interleaved_arrays) {
    const auto kept = array<lane_array<std::uint32_t>>(1);
    const std::uint64_t bytes = 16 << 10;
    launch({1, 32}, keep_one_array{h().ref(), bytes / 4, 11, kept.data()});
    const chunk_usage one = usage();
    if (groups_are_known()) {
        EXPECT_EQ(one.chunks, 1u);
        EXPECT_EQ(one.lanes, 32u);
        EXPECT_EQ(one.live_lanes, 1u);
        EXPECT_EQ(one.live_bytes, bytes);
        EXPECT_EQ(one.held_bytes, 32 * bytes);
        EXPECT_EQ(one.held_over_live(), 32);
    }
    launch({1, 1}, free_the_array{h().ref(), kept.data()});
    EXPECT_EQ(usage().chunks, 0u);
    expect_empty();
}

TEST_P(heap_chunk_usage, fewer_lanes_to_a_chunk_hold_less) {
    const std::uint64_t bytes = 600 << 10;
    for (const int most : {1, 4}) {
        use_lanes(most);
        const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(8, bytes), 32);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
        stamp(blocks);
        expect_stamped(blocks);
        if (groups_are_known()) {
            EXPECT_EQ(usage().chunks, 8u / static_cast<unsigned>(most));
        }
        free_all_but_one(blocks, 3);
        const chunk_usage one = usage();
        EXPECT_EQ(one.chunks, 1u);
        EXPECT_LT(one.held_over_live(), most + 1) << most << " lanes";
        free_all({blocks[3]});
        expect_empty();
    }
}

TEST_P(heap_chunk_usage, fewer_lanes_share_rows_of_arrays) {
    const auto kept = array<lane_array<std::uint32_t>>(1);
    use_lanes(4);
    launch({1, 32}, keep_one_array{h().ref(), (16 << 10) / 4, 11, kept.data()});
    const chunk_usage one = usage();
    EXPECT_EQ(one.chunks, 1u);
    EXPECT_LE(one.held_over_live(), 4);
    EXPECT_LE(one.lanes, 4u);
    launch({1, 1}, free_the_array{h().ref(), kept.data()});
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
