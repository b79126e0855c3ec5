// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A heap beyond its device budget whose memory moves: what kernels use comes to the device, and every block keeps its
// address and its contents.

#include "absl/strings/match.h"
#include "device/sampled_array.cuh"
#include "tests/support/elastic_fixture.hpp"

namespace orchard::test {
namespace {

constexpr std::uint64_t on_device = 8;
constexpr std::uint64_t on_host = 24;

/// Thread i notes `times` accesses to block i, if that is one of every `every`.
struct note_blocks {
    heap_ref heap;
    const block* blocks;
    std::uint64_t count;
    std::uint64_t every;
    std::uint64_t times;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        for (std::uint64_t n = 0; i < count && i % every == 0 && n < times; ++n) {
            heap.note_access(blocks[i].pointer());
        }
    }
};

class heap_moves : public elastic_contract {
protected:
    /// A heap of 8 segments on the device and 24 on the host, in which as many blocks of a segment each are stamped.
    void fill_with_blocks(std::uint64_t unit = 1, std::uint64_t room = 0) {
        options values = values_of(on_device, on_host + room);
        values.move_unit = segments(unit);
        values.commit_ahead = 0;
        ASSERT_NO_FATAL_FAILURE(remake(values));
        for (std::uint64_t i = 0; i < on_device + on_host; ++i) {
            blocks_.push_back(allocate_one(segments(1)));
        }
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks_));
        stamp(blocks_);
    }
    void note(std::uint64_t every, std::uint64_t times) {
        const auto them = array_of(blocks_);
        launch(simt::grid_for(blocks_.size(), 32), note_blocks{h().ref(), them.data(), blocks_.size(), every, times});
    }
    migration migrate() {
        const absl::StatusOr<migration> done = h().migrate();
        EXPECT_TRUE(done.ok()) << done.status();
        return done.ok() ? *done : migration{};
    }
    statistics stats() {
        auto s = h().stats();
        EXPECT_TRUE(s.ok()) << s.status();
        return s.ok() ? *s : statistics{};
    }
    std::vector<block> blocks_;
};
INSTANTIATE_TEST_SUITE_P(all, heap_moves, ::testing::ValuesIn(elastic_cases()), case_name);

TEST_P(heap_moves, what_kernels_use_comes_to_the_device_and_stays_there) {
    ASSERT_NO_FATAL_FAILURE(fill_with_blocks());
    // Every fourth block: eight, of which two lie on the device.
    note(4, 20);
    const migration first = migrate();
    EXPECT_EQ(first.to_device_bytes, segments(6));
    EXPECT_EQ(first.to_host_bytes, segments(6));
    expect_stamped(blocks_);
    EXPECT_EQ(stats().host_bytes, segments(on_host));
    EXPECT_EQ(stats().moved_to_device_bytes, segments(6));
    for (int pass = 0; pass < 3; ++pass) {
        note(4, 20);
        EXPECT_EQ(migrate().to_device_bytes, 0u) << "all of it is there";
    }
    expect_valid("after the moves");
    free_all(blocks_);
    ASSERT_TRUE(h().trim().ok());
    EXPECT_EQ(stats().committed_bytes, 0u);
    EXPECT_EQ(stats().host_bytes, 0u);
    EXPECT_EQ(stats().spare_bytes, 0u);
}

TEST_P(heap_moves, equal_use_of_everything_moves_nothing) {
    ASSERT_NO_FATAL_FAILURE(fill_with_blocks());
    for (int pass = 0; pass < 3; ++pass) {
        note(1, 20);
        EXPECT_EQ(migrate().to_device_bytes, 0u);
    }
    expect_stamped(blocks_);
}

TEST_P(heap_moves, without_samples_the_youngest_memory_comes_to_the_device) {
    ASSERT_NO_FATAL_FAILURE(fill_with_blocks());
    EXPECT_EQ(migrate().to_device_bytes, segments(on_device));
    EXPECT_EQ(migrate().to_device_bytes, 0u);
    expect_stamped(blocks_);
}

TEST_P(heap_moves, a_program_moves_blocks_itself) {
    ASSERT_NO_FATAL_FAILURE(fill_with_blocks(1, 1));
    const auto find = [&](bool high) {
        const auto by_address = [](const block& a, const block& b) { return a.address < b.address; };
        return (high ? *std::max_element(blocks_.begin(), blocks_.end(), by_address)
                     : *std::min_element(blocks_.begin(), blocks_.end(), by_address))
            .pointer();
    };
    // The lowest addresses were committed first, on the device.
    const absl::Status full = h().prefetch(find(true), segments(1));
    EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
    EXPECT_TRUE(h().demote(find(false), 1).ok());
    EXPECT_TRUE(h().demote(find(false), segments(1)).ok()) << "it is there already";
    EXPECT_TRUE(h().prefetch(find(true), segments(1)).ok());
    EXPECT_EQ(stats().moved_to_host_bytes, segments(1));
    EXPECT_EQ(stats().moved_to_device_bytes, segments(1));
    expect_stamped(blocks_);
    EXPECT_TRUE(absl::IsOutOfRange(h().demote(h().ref().view().base - 1, 1)));
    EXPECT_TRUE(h().demote(find(false), 0).ok());
}

// Growth ahead of demand, and `reserve`, fill the budgets of both tiers.
TEST_P(heap_moves, memory_without_blocks_makes_room) {
    options values = values_of(4, 4);
    values.move_unit = segments(1);
    ASSERT_NO_FATAL_FAILURE(remake(values));
    ASSERT_TRUE(h().reserve(segments(8)).ok());
    const std::vector<block> some = allocate({segments(1), segments(1), segments(1)});
    stamp(some);
    EXPECT_EQ(stats().host_bytes, segments(4));
    for (const block& b : some) {
        EXPECT_TRUE(h().demote(b.pointer(), segments(1)).ok());
    }
    EXPECT_EQ(stats().host_bytes, segments(3));
    expect_stamped(some);
    free_all(some);
}

// Large units: the extents of two segments move as a whole.
TEST_P(heap_moves, units_of_several_segments_move_as_a_whole) {
    ASSERT_NO_FATAL_FAILURE(fill_with_blocks(2));
    note(4, 20);
    const migration done = migrate();
    EXPECT_EQ(done.to_device_bytes, done.to_host_bytes);
    EXPECT_GT(done.to_device_bytes, segments(2));
    EXPECT_EQ(done.to_device_bytes % segments(2), 0u);
    expect_stamped(blocks_);
}

TEST_P(heap_moves, a_heap_without_the_option_says_which_one_is_missing) {
    ASSERT_NO_FATAL_FAILURE(remake(values_of(4, 4)));
    const absl::Status refused = h().migrate().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused));
    EXPECT_TRUE(absl::StrContains(refused.message(), "move_unit")) << refused;
    note(1, 1);  // does nothing
}

// Small blocks, chunks and their metadata in all states, between moves.
TEST_P(heap_moves, requests_go_on_between_moves) {
    options values = values_of(on_device, on_host);
    values.move_unit = segments(1);
    values.cached_segments = 4;
    ASSERT_NO_FATAL_FAILURE(remake(values));
    std::vector<block> kept;
    for (int round = 0; round < 12; ++round) {
        const std::vector<block> some = allocate({100, 5000, 70'000, segments(1), 300'000, 16, 64, 2000});
        stamp(some);
        kept.insert(kept.end(), some.begin(), some.end());
        blocks_ = {kept[static_cast<std::size_t>(round) * 3 % kept.size()]};
        note(1, 100);
        (void)migrate();
        expect_stamped(some);
        if (round % 3 == 2) {
            const std::vector<block> old(kept.begin(), kept.begin() + 8);
            free_all(old);
            kept.erase(kept.begin(), kept.begin() + 8);
        }
    }
    expect_valid("after all");
    EXPECT_GT(stats().moved_to_device_bytes, 0u);
    free_all(kept);
}

/// Each thread sums its array through `sampled_array`.
struct sum_sampled {
    heap_ref heap;
    const lane_array<std::uint32_t>* arrays;
    std::uint64_t* sums;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const sampled_array<std::uint32_t> a(arrays[at.global_thread()], heap);
        std::uint64_t sum = 0;
        for (std::uint32_t i = 0; i < a.size(); ++i) {
            a[i] = i;
            sum += a[i];
        }
        sums[at.global_thread()] = sum;
    }
};
struct allocate_arrays {
    heap_ref heap;
    lane_array<std::uint32_t>* arrays;
    std::uint64_t elements;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        arrays[at.global_thread()] = heap.allocate_array<std::uint32_t>(elements, layout::interleaved(tile::k4));
    }
};
struct free_arrays {
    heap_ref heap;
    const lane_array<std::uint32_t>* arrays;
    ORCHARD_FN void operator()(simt::thread_position at) const { heap.free_array(arrays[at.global_thread()]); }
};

TEST_P(heap_moves, an_array_counts_one_of_64_accesses) {
    options values = values_of(on_device, on_host);
    values.move_unit = segments(1);
    ASSERT_NO_FATAL_FAILURE(remake(values));
    constexpr std::uint64_t elements = 1 << 14;
    const auto arrays = array<lane_array<std::uint32_t>>(32);
    const auto sums = array<std::uint64_t>(32);
    launch({1, 32}, allocate_arrays{h().ref(), arrays.data(), elements});
    launch({1, 32}, sum_sampled{h().ref(), arrays.data(), sums.data()});
    for (const std::uint64_t sum : to_host(sums)) {
        EXPECT_EQ(sum, elements * (elements - 1) / 2);
    }
    const auto& view = h().view();
    std::vector<std::uint32_t> samples(view.segments);
    ASSERT_TRUE(copy_to_host(h().executor(), samples.data(), view.samples, samples.size() * sizeof(samples[0])).ok());
    std::uint64_t all = 0;
    for (const std::uint32_t n : samples) {
        all += n;
    }
    // Two accesses for each element of 32 arrays.
    EXPECT_NEAR(static_cast<double>(all), 32.0 * 2 * elements / 64, 32.0 * 2 * elements / 64 * 0.05);
    launch({1, 32}, free_arrays{h().ref(), arrays.data()});
}

}  // namespace
}  // namespace orchard::test
