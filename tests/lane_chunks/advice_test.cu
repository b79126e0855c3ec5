// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Arrays with advice of their own.

#include "tests/lane_chunks/arrays_fixture.hpp"

namespace orchard::test {
namespace {

using element = cell<1>;

struct allocate_advised_each {
    heap_ref heap;
    const std::uint64_t* counts;
    const managed_advice* advice;
    lane_array<element>* arrays;
    std::uint64_t count;
    layout how;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            arrays[i] = heap.allocate_array<element>(counts[i], how, advice[i]);
        }
    }
};

constexpr std::uint64_t words_of(std::uint64_t bytes) { return bytes / sizeof(element); }

class lane_chunks_advice : public arrays_contract {
protected:
    std::vector<lane_array<element>> allocate_advised(const std::vector<std::uint64_t>& counts,
                                                      const std::vector<managed_advice>& advice, layout how) {
        const auto wanted = array_of(counts);
        const auto what = array_of(advice);
        const auto got = array_of(std::vector<lane_array<element>>(counts.size()));
        launch(simt::grid_for(counts.size(), 32),
               allocate_advised_each{h().ref(), wanted.data(), what.data(), got.data(), counts.size(), how});
        return to_host(got);
    }
    std::vector<lane_array<element>> allocate_advised(std::uint64_t bytes, managed_advice advice, layout how) {
        return allocate_advised(std::vector<std::uint64_t>(32, words_of(bytes)), std::vector(32, advice), how);
    }
    [[nodiscard]] bool is_managed() const { return GetParam().backing == backing_option::managed; }
};
INSTANTIATE_TEST_SUITE_P(all, lane_chunks_advice, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(lane_chunks_advice, is_no_hindrance_to_any_heap) {
    for (const layout how : {layout::automatic(), layout::linear(), layout::interleaved(tile::k64)}) {
        for (const managed_advice what : {managed_advice::read_mostly, managed_advice::cpu_resident,
                                          managed_advice::none, managed_advice::first_touch_gpu}) {
            for (const std::uint64_t bytes : {100u, 40u << 10, 128u << 10}) {
                const auto arrays = allocate_advised(bytes, what, how);
                expect_sizes(arrays, std::vector<std::uint64_t>(32, words_of(bytes)));
                stamp_arrays(arrays);
                (void)expect_arrays_stamped(arrays);
                free_arrays(arrays);
            }
        }
    }
    expect_valid();
    EXPECT_EQ(invalid_frees(), 0u);
}

TEST_P(lane_chunks_advice, takes_whole_va_blocks_of_managed_memory_alone) {
    const layout tiles = layout::interleaved(tile::k64);
    const auto plain = allocate_advised(80 << 10, managed_advice::first_touch_gpu, tiles);
    EXPECT_EQ(chunk_bytes(plain), 32u * (80 << 10)) << "the heap's own advice";
    free_arrays(plain);
    const auto arrays = allocate_advised(80 << 10, managed_advice::read_mostly, tiles);
    EXPECT_EQ(chunk_bytes(arrays), is_managed() ? segments(2) : 32u * (80 << 10));
    free_arrays(arrays);
    const auto small = allocate_advised(40 << 10, managed_advice::read_mostly, tiles);
    EXPECT_EQ(chunk_bytes(small), 32u * (40 << 10)) << "less than a VA block is not advised";
    free_arrays(small);
    expect_valid();
}

TEST_P(lane_chunks_advice, is_asked_of_the_host_although_the_device_has_memory) {
    if (!is_managed()) {
        GTEST_SKIP() << "the memory is not managed";
    }
    options values = GetParam().values();
    values.allow_oversubscription = true;  // so that `trim` discards memory
    remake(values);
    const layout tiles = layout::interleaved(tile::k64);
    // Neither refills nor returns.
    const auto requests = [&] {
        const statistics s = settled_stats();
        return s.host_requests - s.refills - s.returns;
    };
    free_arrays(allocate_advised(64 << 10, managed_advice::first_touch_gpu, tiles));
    std::uint64_t before = requests();
    free_arrays(allocate_advised(64 << 10, managed_advice::first_touch_gpu, tiles));
    EXPECT_EQ(requests(), before) << "the segment cache has it";
    before = requests();
    const auto arrays = allocate_advised(64 << 10, managed_advice::none, tiles);
    EXPECT_GT(requests(), before);
    stamp_arrays(arrays);
    (void)expect_arrays_stamped(arrays);
    free_arrays(arrays);
    expect_valid();
    ASSERT_TRUE(h().trim().ok());
    expect_valid();
    EXPECT_EQ(settled_stats().committed_bytes, 0u);
}

TEST_P(lane_chunks_advice, parts_lanes_that_want_different_advice) {
    const auto managed = is_managed();
    std::vector<managed_advice> advice(32, managed_advice::none);
    std::fill(advice.begin() + 8, advice.end(), managed_advice::read_mostly);
    std::fill(advice.begin() + 24, advice.end(), managed_advice::first_touch_gpu);
    for (const layout how : {layout::interleaved(tile::k64), layout::linear()}) {
        const std::vector<std::uint64_t> counts(32, words_of(64 << 10));
        const auto arrays = allocate_advised(counts, advice, how);
        stamp_arrays(arrays);
        (void)expect_arrays_stamped(arrays);
        if (how != layout::linear()) {
            EXPECT_EQ(arrays[0].map().width, managed ? 8 : 32);
            EXPECT_EQ(arrays[8].map().width, managed ? 16 : 32);
            EXPECT_EQ(arrays[24].map().width, managed ? 8 : 32);
        }
        free_arrays(arrays);
    }
    expect_valid();
}

TEST_P(lane_chunks_advice, of_long_linear_arrays) {
    if (GetParam().capacity < segments(64)) {
        GTEST_SKIP() << "too few segments";
    }
    for (int round = 0; round < 3; ++round) {
        std::vector<managed_advice> advice(32, managed_advice::none);
        std::fill(advice.begin() + 16, advice.end(), managed_advice::cpu_resident);
        const std::vector<std::uint64_t> counts(32, words_of(640 << 10));
        const auto arrays = allocate_advised(counts, advice, layout::linear());
        expect_sizes(arrays, counts);
        stamp_arrays(arrays);
        (void)expect_arrays_stamped(arrays);
        for (std::size_t i = 1; i < 32; ++i) {
            if (i != 16) {
                EXPECT_EQ(as_number(arrays[i].chunk()), as_number(arrays[i - 1].chunk()) + (640 << 10)) << i;
            }
        }
        if (is_managed()) {
            EXPECT_EQ(as_number(arrays[0].chunk()) % segment_bytes, as_number(h().view().base) % segment_bytes);
            EXPECT_EQ(as_number(arrays[16].chunk()) % segment_bytes, as_number(h().view().base) % segment_bytes);
        }
        free_arrays(arrays);
        expect_valid();
    }
}

/// A second group finds no memory but what is on the device: it takes that, without the advice.
TEST_P(lane_chunks_advice, is_given_up_rather_than_the_memory) {
    const std::uint64_t bytes = (GetParam().capacity - segments(2)) / 32 / (64 << 10) * (64 << 10);
    for (int round = 0; round < 3; ++round) {
        const auto arrays = allocate_advised(bytes, round == 1 ? managed_advice::read_mostly : managed_advice::none,
                                             layout::interleaved(tile::k64));
        expect_sizes(arrays, std::vector<std::uint64_t>(32, words_of(bytes)));
        free_arrays(arrays);
    }
    expect_valid();
}

}  // namespace
}  // namespace orchard::test
