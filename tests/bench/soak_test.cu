// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard bench soak` at small scale, and its detection of faults.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "device/heap_ref.cuh"
#include "profiling/bench/soak_runner.cuh"
#include "runtime/heap/heap.hpp"
#include "tests/bench/run_benchmark.hpp"

namespace orchard::bench::soak {
namespace {

using testing::HasSubstr;

plan small_plan() {
    plan p;
    p.threads = 96;
    p.slots_each = 8;
    p.sizes = {64, 512};
    return p;
}

/// A heap that hands out memory of a ring, as if all earlier blocks had been freed.
struct forgetful_heap {
    char* ring = nullptr;
    std::uint64_t ring_bytes = 0;  ///< a power of two, with room for one block beyond
    word64* next = nullptr;

    ORCHARD_FN void* malloc(std::uint64_t bytes) const {
        // Relaxed: addresses only.
        return ring + (next->fetch_add<order::relaxed>((bytes + 15) / 16 * 16) & (ring_bytes - 1));
    }
    ORCHARD_FN void free(void*) const {}
};

/// A heap that answers no request until it is closed, and then returns null.
struct silent_heap {
    const word64* closed = nullptr;

    ORCHARD_FN void* malloc(std::uint64_t) const {
        while (closed->load<order::relaxed>() == 0) {
            simt::pause(1000);
        }
        return nullptr;
    }
    ORCHARD_FN void free(void*) const {}
};

class soak_of_a_heap : public testing::Test {
protected:
    void SetUp() override {
        options values;
        values.device = device_option::emulated;
        values.capacity = 256ull << 20;
        values.emulated_workers = 2;
        auto made = heap::create(values);
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
        auto r = runner<heap_ref>::create(heap_->executor(), heap_->ref(), small_plan(), [] {});
        ASSERT_TRUE(r.ok()) << r.status();
        runner_.emplace(*std::move(r));
        // Several launches, so that blocks outlive one.
        for (int i = 0; i < 3; ++i) {
            const auto one = runner_->run(20);
            ASSERT_TRUE(one.ok()) << one.status();
            EXPECT_GT(one->allocations, 0u);
        }
    }

    std::vector<word64> slots() {
        std::vector<word64> all(runner_->slots().size());
        const absl::Status s = runner_->slots().download(all);
        EXPECT_TRUE(s.ok()) << s;
        return all;
    }
    /// A slot with a block in it, of those from `first` on.
    std::size_t occupied(std::size_t first) {
        const std::vector<word64> all = slots();
        while (first < all.size() && all[first].load<order::relaxed>() == 0) {
            ++first;
        }
        EXPECT_LT(first, all.size());
        return first;
    }
    std::uint64_t word_of(std::size_t slot) { return slots()[slot].load<order::relaxed>(); }
    void write(void* at, std::uint64_t value) {
        const absl::Status s = copy_to_device(heap_->executor(), at, &value, sizeof(value));
        EXPECT_TRUE(s.ok()) << s;
    }
    std::uint64_t read(const void* at) {
        std::uint64_t value = 0;
        const absl::Status s = copy_to_host(heap_->executor(), &value, at, sizeof(value));
        EXPECT_TRUE(s.ok()) << s;
        return value;
    }

    std::optional<heap> heap_;
    std::optional<runner<heap_ref>> runner_;
};

TEST_F(soak_of_a_heap, frees_all_and_finds_nothing_wrong) {
    EXPECT_TRUE(runner_->drain().ok());
    const counts& c = runner_->counted();
    EXPECT_EQ(c.allocations, c.frees);
    EXPECT_GT(c.allocations, 1000u);
    EXPECT_GT(c.handed_over, 100u);
    EXPECT_EQ(c.nulls, 0u);
    EXPECT_EQ(c.mismatches, 0u);
    ASSERT_TRUE(heap_->trim().ok());
    EXPECT_TRUE(heap_->validate().ok());
    const auto stats = heap_->stats();
    ASSERT_TRUE(stats.ok());
    EXPECT_EQ(stats->pages_in_use, 0u);
    EXPECT_EQ(stats->live_chunks, 0u);
    EXPECT_EQ(stats->allocations, c.allocations);
    EXPECT_EQ(stats->frees, c.frees);
    EXPECT_EQ(stats->invalid_frees, 0u);
    // The mix has chunks too, or this tests less than it should.
    EXPECT_GT(stats->chunk_allocations, 0u);
}

TEST_F(soak_of_a_heap, sees_a_changed_first_word) {
    const std::size_t slot = occupied(0);
    std::uint64_t* block = block_in(word_of(slot));
    const std::uint64_t id = read(block);
    write(block, id ^ 1);
    const absl::Status s = runner_->drain();
    EXPECT_EQ(s.code(), absl::StatusCode::kInternal) << s;
    EXPECT_EQ(runner_->counted().mismatches, 1u);
    EXPECT_THAT(s.ToString(), HasSubstr("its first word is"));
}

TEST_F(soak_of_a_heap, sees_a_changed_last_word_and_names_the_owner) {
    const std::size_t slot = occupied(100);
    std::uint64_t* block = block_in(word_of(slot));
    const std::uint64_t id = read(block);
    std::uint64_t* last = block + bytes_of(hash_of(id), small_plan().sizes) / 8 - 1;
    EXPECT_EQ(read(last), hash_of(id));
    write(last, 5);
    const absl::Status s = runner_->drain();
    EXPECT_EQ(s.code(), absl::StatusCode::kInternal) << s;
    EXPECT_EQ(runner_->counted().mismatches, 1u);
    EXPECT_THAT(s.ToString(), HasSubstr(absl::StrCat("of thread ", id >> 32)));
    EXPECT_THAT(s.ToString(), HasSubstr("its last word is 0x5 "));
}

TEST_F(soak_of_a_heap, sees_a_block_that_stands_in_two_slots) {
    const std::vector<word64> before = slots();
    const std::size_t slot = occupied(0);
    std::size_t empty = 0;
    while (before[empty].load<order::relaxed>() != 0) {
        ++empty;
    }
    write(runner_->slots().data() + empty, word_of(slot));
    const absl::Status s = runner_->drain();
    EXPECT_EQ(s.code(), absl::StatusCode::kInternal) << s;
    EXPECT_EQ(runner_->counted().mismatches, 1u);
}

TEST_F(soak_of_a_heap, does_not_mind_in_which_slot_a_block_stands) {
    const std::size_t a = occupied(0);
    const std::size_t b = occupied(a + 1);
    const std::uint64_t in_a = word_of(a);
    const std::uint64_t in_b = word_of(b);
    write(runner_->slots().data() + a, in_b);
    write(runner_->slots().data() + b, in_a);
    EXPECT_TRUE(runner_->drain().ok());
    EXPECT_EQ(runner_->counted().mismatches, 0u);
}

TEST(soak, sees_a_heap_that_hands_out_memory_twice) {
    const simt::executor on{simt::device_kind::emulated, 2};
    constexpr std::uint64_t ring_bytes = 1 << 16;
    auto ring = device_array<char>::create(on, ring_bytes + (8 << 20));
    auto next = device_array<word64>::create(on, 1);
    ASSERT_TRUE(ring.ok() && next.ok());
    auto r =
        runner<forgetful_heap>::create(on, forgetful_heap{ring->data(), ring_bytes, next->data()}, small_plan(), [] {});
    ASSERT_TRUE(r.ok()) << r.status();
    const auto one = r->run(100);
    EXPECT_EQ(one.status().code(), absl::StatusCode::kInternal) << one.status();
    EXPECT_GT(r->counted().mismatches, 0u);
}

TEST(soak, ends_a_launch_that_takes_too_long_and_says_so) {
    const simt::executor on{simt::device_kind::emulated, 2};
    auto closed = device_array<word64>::create(on, 1);
    ASSERT_TRUE(closed.ok()) << closed.status();
    plan p = small_plan();
    p.deadline = absl::Milliseconds(1);
    word64* flag = closed->data();
    auto r = runner<silent_heap>::create(on, silent_heap{flag}, p, [flag] { flag->store<order::relaxed>(1); });
    ASSERT_TRUE(r.ok()) << r.status();
    // No thread ends unless the heap is closed.
    const auto one = r->run(4);
    EXPECT_EQ(one.status().code(), absl::StatusCode::kDeadlineExceeded) << one.status();
}

TEST(soak, sizes_are_what_the_mix_says) {
    constexpr size_mix sizes{16, 256};
    std::array<int, 3> seen{};
    for (std::uint64_t id = 1; id <= 100'000; ++id) {
        const std::uint64_t bytes = bytes_of(hash_of(id), sizes);
        ASSERT_EQ(bytes % 8, 0u);
        ASSERT_GE(bytes, 16u);
        ASSERT_LE(bytes, 4u << 20);
        ++seen[bytes <= 8192 ? 0 : bytes <= 512 << 10 ? 1 : 2];
        ASSERT_LE((bytes_of(hash_of(id), {0, 0})), 8192u);
    }
    EXPECT_NEAR(seen[2], 100'000 / 256, 100);
    EXPECT_NEAR(seen[1], 100'000 / 16, 500);
}

TEST(soak, rates_are_those_of_the_first_and_the_last_tenth) {
    std::vector<sample> launches(20, {100, 10});
    launches[0] = {100, 20};
    launches[1] = {100, 30};
    launches[19] = {100, 5};
    launches[18] = {100, 15};
    const tenths rates = rates_of_tenths(launches);
    EXPECT_DOUBLE_EQ(rates.first, 200.0 / 50);
    EXPECT_DOUBLE_EQ(rates.last, 200.0 / 20);
    EXPECT_EQ(rates_of_tenths({}).first, 0);
}

TEST(soak, rounds_follow_the_time_of_the_last_launch) {
    plan p;
    p.threads = 1000;
    p.allocations = 1'000'000'000'000;
    p.launch_us = 1000;
    EXPECT_EQ(next_rounds(p, 100, 2000), 50u);
    EXPECT_EQ(next_rounds(p, 100, 500), 200u);
    EXPECT_EQ(next_rounds(p, 100, 1), 400u) << "four times as many at most";
    EXPECT_EQ(next_rounds(p, 1, 1e9), 1u);
    p.allocations = 500'000;  // 50 launches of 10,000, by 1,000 threads that allocate in every other round
    EXPECT_EQ(next_rounds(p, 100, 1000), 20u);
}

TEST(bench_soak, has_a_row_for_its_run) {
    const auto rows = run_quickly("soak");
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->size(), 1u);
    const auto& row = (*rows)[0];
    EXPECT_GE(row["allocations"], 20'000);
    EXPECT_EQ(row["allocations"], row["frees"]);
    EXPECT_EQ(row["mismatches"], 0);
    EXPECT_EQ(row["left_in_use"], 0);
    EXPECT_GT(row["handed_over"], 0);
    EXPECT_GE(row["launches"], 20);
}

}  // namespace
}  // namespace orchard::bench::soak
