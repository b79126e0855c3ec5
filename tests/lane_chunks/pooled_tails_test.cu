// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Chunks of arrays whose tail lies elsewhere than behind their segments: the option `tails`.

#include <gmock/gmock.h>

#include <bit>
#include <numeric>
#include <random>

#include "tests/lane_chunks/arrays_fixture.hpp"

namespace orchard::test {
namespace {

/// An element of 1 KiB: arrays of megabytes with few elements.
using row_cell = cell<256>;
using row_arrays = std::vector<lane_array<row_cell>>;

/// Returns how many elements a lane of `bytes` bytes has, rounded up.
constexpr std::uint64_t elements(std::uint64_t bytes) { return (bytes + sizeof(row_cell) - 1) / sizeof(row_cell); }

constexpr std::uint64_t kib = 1024;

class lane_chunks_pooled_tails : public arrays_contract {
protected:
    void SetUp() override {
        arrays_contract::SetUp();
        if (!IsSkipped()) {
            use(tail_policy::pooled);
        }
    }
    void use(tail_policy tails, std::uint64_t n = 0, portion_policy portions = portion_policy::packed) {
        options o = GetParam().values();
        o.tails = tails;
        o.portions = portions;
        if (n != 0) {
            o.capacity = segments(n);
            o.range = 0;
            o.cached_segments = 0;  // so that the host has granted exactly what is in use
        }
        ASSERT_NO_FATAL_FAILURE(remake(o));
    }
    /// Returns whether these arrays of one group have a chunk whose tail lies elsewhere.
    bool is_pooled(const row_arrays& arrays) {
        const heap_peer peer(h());
        const std::uint32_t first = peer.segment_of(as_number(arrays[0].chunk()));
        return device::descriptor::kind(peer.descriptor(first)) == device::segment_kind::chunk &&
               (peer.read(&peer.view().records[first].leaves) & device::pooled_tail_flag) != 0;
    }
    /// Allocates arrays of these bytes for each lane of one warp, writes, reads from elsewhere and frees in another
    /// order. Returns whether the tail lies elsewhere.
    bool cycle_arrays(const std::vector<std::uint64_t>& bytes, tile t) {
        std::vector<std::uint64_t> counts;
        for (const std::uint64_t b : bytes) {
            counts.push_back(elements(b));
        }
        const row_arrays got = allocate_arrays<row_cell>(counts, layout::interleaved(t), 32);
        expect_sizes(got, counts);
        expect_valid("allocated");
        const bool pooled = is_pooled(got);
        stamp_arrays(got);
        expect_arrays_stamped(got);
        std::vector<std::uint64_t> order(got.size());
        std::iota(order.rbegin(), order.rend(), 0);
        free_arrays(got, order, 7);
        expect_valid("freed");
        EXPECT_EQ(invalid_frees(), 0u);
        return pooled;
    }
    /// Arrays of a chunk of a segment and a tail of two leaves.
    row_arrays warp_of_66_kib() {
        return allocate_arrays<row_cell>(std::vector<std::uint64_t>(32, elements(66 * kib)),
                                         layout::interleaved(tile::k64), 32);
    }
};
INSTANTIATE_TEST_SUITE_P(all, lane_chunks_pooled_tails, ::testing::ValuesIn(heap_cases()), case_name);

// 66 KiB are 17 OS pages: a row of 64 KiB tiles fills a segment, and the row of 4 KiB tiles behind it takes two leaves.
TEST_P(lane_chunks_pooled_tails, of_32_warps_share_two_va_blocks) {
    if (GetParam().where != lies_in::its_own) {
        GTEST_SKIP() << "needs a heap of another size";
    }
    const std::vector<std::uint64_t> counts(std::size_t{32} * 32, elements(66 * kib));
    for (const tail_policy tails : {tail_policy::adjacent, tail_policy::pooled}) {
        ASSERT_NO_FATAL_FAILURE(use(tails, 72));
        const row_arrays got = allocate_arrays<row_cell>(counts, layout::interleaved(tile::k64), 32);
        expect_sizes(got, counts);
        const statistics s = settled_stats();
        const bool pooled = tails == tail_policy::pooled;
        EXPECT_EQ(s.portions_granted, 32u);
        if (GetParam().device == device_option::emulated) {
            EXPECT_EQ(s.segments_granted, pooled ? 34u : 64u);
            EXPECT_EQ(s.portion_blocks, pooled ? 2u : 32u);
        }
        free_arrays(got);
        expect_empty();
    }
}

// The tail lies elsewhere where the rows of whole tiles fill whole segments.
TEST_P(lane_chunks_pooled_tails, of_lanes_of_one_length_hold_what_was_written) {
    std::uint32_t pooled = 0;
    for (const std::uint32_t lanes : {32u, 16u, 12u, 4u, 2u}) {
        for (const tile t : {tile::k8, tile::k64}) {
            for (const std::uint64_t m : {1u, 2u}) {
                for (const std::int64_t more : {-8, -4, 0, 4, 8, 40, 64, 68}) {
                    const std::uint64_t bytes = m * segment_bytes / lanes / os_page_bytes * os_page_bytes +
                                                static_cast<std::uint64_t>(more * 1024);
                    // A tile is no longer than a lane.
                    const std::uint64_t turn = std::min(bytes_of(t), std::bit_floor(bytes));
                    const std::uint64_t in_rows = bytes / turn * turn * lanes;
                    const bool fills = in_rows != 0 && in_rows % segment_bytes == 0 && bytes % turn != 0;
                    EXPECT_EQ(cycle_arrays(std::vector<std::uint64_t>(lanes, bytes), t), fills);
                    pooled += fills ? 1 : 0;
                    ASSERT_FALSE(HasFailure()) << lanes << " lanes of " << bytes << " B, tiles of " << bytes_of(t);
                }
            }
        }
    }
    EXPECT_GT(pooled, 30u);
    expect_empty();
}

TEST_P(lane_chunks_pooled_tails, of_lanes_of_different_lengths_hold_what_was_written) {
    std::mt19937 random(13);
    std::uint32_t pooled = 0;
    const auto rounds = static_cast<std::uint32_t>(scaled(60, 20));
    for (std::uint32_t round = 0; round < rounds; ++round) {
        if (round == rounds / 2) {
            options o = GetParam().values();
            o.tails = tail_policy::pooled;
            o.lane_order = lane_order::prefetch_first;
            ASSERT_NO_FATAL_FAILURE(remake(o));
        }
        const auto lanes = static_cast<std::uint32_t>(2 + random() % 31);
        const std::uint64_t least = (1 + random() % 2) * segment_bytes / lanes;
        std::vector<std::uint64_t> bytes(lanes);
        for (std::uint64_t& b : bytes) {
            b = least + random() % least;
        }
        pooled += cycle_arrays(bytes, round % 3 == 0 ? tile::k16 : tile::k64) ? 1 : 0;
        ASSERT_FALSE(HasFailure()) << "round " << round << ", " << lanes << " lanes";
    }
    EXPECT_GT(pooled, rounds / 3);
    expect_empty();
}

TEST_P(lane_chunks_pooled_tails, under_the_policy_padded) {
    ASSERT_NO_FATAL_FAILURE(use(tail_policy::pooled, 0, portion_policy::padded));
    std::mt19937 random(17);
    for (int round = 0; round < 6; ++round) {
        EXPECT_TRUE(cycle_arrays(std::vector<std::uint64_t>(32, (66 + 4 * random() % 20) * kib), tile::k64));
        std::vector<std::uint64_t> bytes(32);
        for (std::uint64_t& b : bytes) {
            b = (70 + random() % 60) * kib;
        }
        cycle_arrays(bytes, tile::k64);
        ASSERT_FALSE(HasFailure()) << "round " << round;
    }
    expect_empty();
}

TEST_P(lane_chunks_pooled_tails, stay_adjacent_where_addresses_are_not_translated) {
    // `lane_ptr` serves tiles of at most 4 KiB, and rows without tail rows.
    const auto small = allocate_arrays<row_cell>(std::vector<std::uint64_t>(32, 66), layout::interleaved(tile::k1), 32);
    const auto whole =
        allocate_arrays<row_cell>(std::vector<std::uint64_t>(16, 192), layout::interleaved(tile::k64), 16);
    for (const row_arrays& arrays : {small, whole}) {
        EXPECT_FALSE(is_pooled(arrays));
        EXPECT_TRUE(static_cast<bool>(arrays[0].data()));
        free_arrays(arrays);
    }
    expect_empty();
}

TEST_P(lane_chunks_pooled_tails, come_back_without_a_round_trip) {
    if (GetParam().cached_segments == 0 || GetParam().backing == backing_option::managed) {
        GTEST_SKIP() << "without much in the segment cache every request goes to the host";
    }
    free_arrays(warp_of_66_kib());
    free_arrays(warp_of_66_kib());
    const std::uint64_t host_requests = settled_stats().host_requests;
    for (int i = 0; i < 10; ++i) {
        const row_arrays got = warp_of_66_kib();
        ASSERT_TRUE(is_pooled(got));
        free_arrays(got);
    }
    EXPECT_EQ(settled_stats().host_requests, host_requests);
    expect_empty();
}

TEST_P(lane_chunks_pooled_tails, end_with_the_last_array) {
    const row_arrays got = warp_of_66_kib();
    const row_arrays some(got.begin(), got.begin() + 20);
    free_arrays(some);
    expect_valid("some freed");
    if (const absl::StatusOr<chunk_usage> u = h().chunks(); u.ok()) {
        EXPECT_EQ(u->chunks, 1u);
        EXPECT_EQ(u->held_bytes, segments(1) + 2 * big_page_bytes);
        EXPECT_EQ(u->live_lanes, 12u);
        EXPECT_EQ(u->live_bytes, u->held_bytes / 32 * 12);
    }
    free_arrays(some);
    EXPECT_EQ(invalid_frees(), 20u);
    free_arrays(row_arrays(got.begin() + 20, got.end()));
    EXPECT_EQ(settled_stats().live_chunks, 0u);
    free_arrays(got);
    EXPECT_EQ(invalid_frees(), 52u);
    expect_empty();
}

/// Calls `free` and `usable_size` for the first byte of each array, and `free` for the last, which may lie in the tail.
struct free_both_ends {
    heap_ref heap;
    const lane_array<row_cell>* them;
    std::uint64_t count;
    std::uint64_t* sizes;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            sizes[i] = heap.usable_size(them[i].chunk()) + heap.usable_size(&them[i][them[i].size() - 1]);
            heap.free(them[i].chunk());
            heap.free(&them[i][them[i].size() - 1]);
        }
    }
};

TEST_P(lane_chunks_pooled_tails, are_no_blocks) {
    const row_arrays got = warp_of_66_kib();
    stamp_arrays(got);
    const auto them = array_of(got);
    const auto sizes = array<std::uint64_t>(got.size());
    launch(simt::grid_for(got.size(), 32), free_both_ends{heap_ref(h().ref()), them.data(), got.size(), sizes.data()});
    EXPECT_EQ(to_host(sizes), std::vector<std::uint64_t>(got.size(), 0));
    EXPECT_EQ(invalid_frees(), 2 * got.size());
    expect_arrays_stamped(got);
    free_arrays(got);
    expect_empty();
}

TEST_P(lane_chunks_pooled_tails, that_find_no_segments_are_given_back) {
    std::vector<block> blocks;
    for (block b = allocate_one(segments(1)); b.address != 0; b = allocate_one(segments(1))) {
        blocks.push_back(b);
    }
    ASSERT_GE(blocks.size(), 4u);
    const auto no_memory = [&] {
        row_arrays got = warp_of_66_kib();
        std::erase_if(got, [](const lane_array<row_cell>& a) { return a.empty(); });
        return got;
    };
    EXPECT_TRUE(no_memory().empty());
    // One segment: it becomes a block of portions for the tail, and there is none for the segment. The parts of the
    // group share it.
    free_all({blocks.back()}, {}, 1);
    blocks.pop_back();
    const row_arrays few = no_memory();
    EXPECT_GE(few.size(), 16u);
    EXPECT_LT(few.size(), 32u);
    stamp_arrays(few);
    expect_arrays_stamped(few);
    expect_valid("full");
    free_arrays(few);
    // Two: the chunk and its tail.
    free_all({blocks.back()}, {}, 1);
    blocks.pop_back();
    const row_arrays all = no_memory();
    EXPECT_EQ(all.size(), 32u);
    free_arrays(all);
    free_all(blocks);
    EXPECT_EQ(invalid_frees(), 0u);
    expect_empty();
}

TEST_P(lane_chunks_pooled_tails, of_a_hardened_heap) {
    options o = GetParam().values();
    o.tails = tail_policy::pooled;
    o.hardened = hardening::detect;
    ASSERT_NO_FATAL_FAILURE(remake(o));
    EXPECT_TRUE(cycle_arrays(std::vector<std::uint64_t>(32, 66 * kib), tile::k64));
    expect_empty();
}

TEST_P(lane_chunks_pooled_tails, are_validated) {
    if (GetParam().device != device_option::emulated) {
        GTEST_SKIP() << "faults are planted on the emulated device";
    }
    const row_arrays got = warp_of_66_kib();
    const heap_peer peer(h());
    device::chunk_record& record = peer.view().records[peer.segment_of(as_number(got[0].chunk()))];
    ASSERT_EQ(peer.read(&record.leaves), device::pooled_tail_flag | 2u);
    const std::uint64_t tail = peer.read(&record.tail);
    const auto finding = [&](auto* at, std::uint64_t value) {
        planted_fault fault(peer);
        fault.set(at, value);
        const absl::Status s = h().validate();
        EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
        return std::string(s.message());
    };
    using ::testing::HasSubstr;
    EXPECT_THAT(finding(&record.tail, tail + 1), HasSubstr("a chunk's tail of 2 leaves"));
    EXPECT_THAT(finding(&record.leaves, device::pooled_tail_flag | 3u), HasSubstr("a chunk's tail of 3 leaves"));
    EXPECT_THAT(finding(&record.leaves, 2), HasSubstr("a chunk's tail of 2 leaves"));
    EXPECT_THAT(finding(&record.leaves, device::pooled_tail_flag), HasSubstr("a tail of 0 leaves elsewhere"));
    EXPECT_THAT(finding(&record.lanes, 32), HasSubstr("elsewhere, of blocks"));
    free_arrays(got);
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
