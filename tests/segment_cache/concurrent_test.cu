// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Many groups take, put and drain at the same time: no segment has two owners, and none is lost.

#include <gtest/gtest.h>

#include <vector>

#include "tests/simt/run_emulated.hpp"
#include "tests/support/heap_memory.cuh"

namespace orchard {
namespace {

using device::mix;
using rig::heap_memory;
using simt::order;
using word32 = simt::device_word<std::uint32_t>;

class SegmentCacheUnderLoad : public ::testing::TestWithParam<std::uint32_t> {
protected:
    explicit SegmentCacheUnderLoad() : heap_{GetParam()}, owners_(GetParam()) {}

    /// Leader only: records that the run now has an owner.
    void own(segment_run run) {
        for (std::uint32_t i = 0; i < run.count; ++i) {
            shared_.fetch_add<order::relaxed>(owners_[to_underlying(run.first) + i].fetch_add<order::relaxed>(1));
        }
    }
    void disown_and_put(segment_run run) {
        for (std::uint32_t i = 0; i < run.count; ++i) {
            owners_[to_underlying(run.first) + i].fetch_sub<order::relaxed>(1);
        }
        device::cache_put(heap_.view, run);
    }

    heap_memory heap_;
    std::vector<word32> owners_;
    word32 shared_{0};
    word32 taken_{0};
};

TEST_P(SegmentCacheUnderLoad, NoSegmentHasTwoOwners) {
    const std::uint32_t all = GetParam();
    device::cache_put(heap_.view, {segment_index{0}, all});
    const auto result = simt::run_emulated(
        {6, 64},
        [&](simt::thread_position at) {
            for (std::uint32_t round = 0; round < 60; ++round) {
                const std::uint32_t groups = 1 + round % 5;
                const simt::lane_mask mask = simt::match(simt::converge(), at.thread % groups);
                const std::uint32_t draw =
                    device::from_leader(mask, mix(static_cast<std::uint32_t>(at.global_thread()) * 1000 + round));
                // Mostly short runs: whole words are soon broken up.
                const std::uint32_t k = draw % 8 == 0 ? 1 + draw / 8 % 64 : 1 + draw / 8 % 4;
                segment_run run;
                const bool ok = device::cache_take(heap_.view, mask, k, &run);
                if (ok && device::is_leader(mask)) {
                    own(run);
                    taken_.fetch_add<order::relaxed>(1);
                }
                simt::pause(0);
                if (ok && device::is_leader(mask)) {
                    disown_and_put(run);
                }
            }
        },
        3);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(shared_.load<order::relaxed>(), 0u);
    EXPECT_GT(taken_.load<order::relaxed>(), 100u);
    EXPECT_EQ(device::cache_level(heap_.view), all);
    EXPECT_EQ(heap_.cache_bits(), all);
    EXPECT_TRUE(heap_.summary_is_complete());
}

// Runs of different lengths overlap in one word; a group that wins only a part of its run must return that part.
TEST(SegmentCacheUnderContention, NoSegmentOfOneWordHasTwoOwners) {
    constexpr std::uint32_t all = 20;
    heap_memory heap(64);
    std::vector<word32> owners(all);
    word32 shared{0};
    device::cache_put(heap.view, {segment_index{0}, all});
    const auto result = simt::run_emulated(
        {4, 8},
        [&](simt::thread_position at) {
            const simt::lane_mask alone = 1u << at.thread;
            std::uint32_t random = static_cast<std::uint32_t>(at.global_thread());
            for (std::uint32_t round = 0; round < 20000; ++round) {
                random = mix(random + 0x9e3779b9u);
                segment_run run;
                if (!device::cache_take(heap.view, alone, 1 + random % 6, &run)) {
                    continue;
                }
                for (std::uint32_t s = to_underlying(run.first); s < to_underlying(run.first) + run.count; ++s) {
                    shared.fetch_add<order::relaxed>(owners[s].fetch_add<order::relaxed>(1));
                }
                if (random % 4096 < 64) {
                    simt::pause(0);
                }
                for (std::uint32_t s = to_underlying(run.first); s < to_underlying(run.first) + run.count; ++s) {
                    owners[s].fetch_sub<order::relaxed>(1);
                }
                device::cache_put(heap.view, run);
            }
        },
        4);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(shared.load<order::relaxed>(), 0u);
    EXPECT_EQ(device::cache_level(heap.view), all);
    EXPECT_EQ(heap.cache_bits(), all);
}

TEST_P(SegmentCacheUnderLoad, DrainingBesideTakersLosesNothing) {
    const std::uint32_t all = GetParam();
    device::cache_put(heap_.view, {segment_index{0}, all});
    const auto result = simt::run_emulated(
        {4, 64},
        [&](simt::thread_position at) {
            const simt::lane_mask mask = simt::converge();
            for (std::uint32_t round = 0; round < 40; ++round) {
                if (at.block == 0) {
                    // A lane drains a word and puts it back bit by bit.
                    const std::uint32_t word = (at.thread * 7 + round) % heap_.view.cache_words();
                    const std::uint64_t bits = device::cache_drain_word(heap_.view, word);
                    for (std::uint32_t b = 0; b < 64; ++b) {
                        if ((bits >> b & 1) != 0) {
                            own({segment_index{word * 64 + b}, 1});
                        }
                    }
                    simt::pause(0);
                    for (std::uint32_t b = 0; b < 64; ++b) {
                        if ((bits >> b & 1) != 0) {
                            disown_and_put({segment_index{word * 64 + b}, 1});
                        }
                    }
                } else {
                    segment_run run;
                    const bool ok = device::cache_take(heap_.view, mask, 1 + round % 3, &run);
                    if (ok && device::is_leader(mask)) {
                        own(run);
                    }
                    simt::pause(0);
                    if (ok && device::is_leader(mask)) {
                        disown_and_put(run);
                    }
                }
            }
        },
        3);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(shared_.load<order::relaxed>(), 0u);
    EXPECT_EQ(device::cache_level(heap_.view), all);
    EXPECT_EQ(heap_.cache_bits(), all);
    EXPECT_TRUE(heap_.summary_is_complete());
}

// Writes to a segment before it is put are visible to the group that takes it; the thread sanitizer checks it.
TEST_P(SegmentCacheUnderLoad, PuttingReleasesAndTakingAcquires) {
    std::vector<std::uint64_t> content(GetParam());  // not atomic: the segment cache orders
    device::cache_put(heap_.view, {segment_index{0}, GetParam()});
    const auto result = simt::run_emulated(
        {4, 64},
        [&](simt::thread_position) {
            const simt::lane_mask mask = simt::converge();
            for (int round = 0; round < 50; ++round) {
                segment_run run;
                if (device::cache_take(heap_.view, mask, 1, &run) && device::is_leader(mask)) {
                    ++content[to_underlying(run.first)];
                    taken_.fetch_add<order::relaxed>(1);
                    device::cache_put(heap_.view, run);
                }
            }
        },
        3);
    ASSERT_TRUE(result.ok) << result.error;
    std::uint64_t total = 0;
    for (const std::uint64_t n : content) {
        total += n;
    }
    EXPECT_EQ(total, taken_.load<order::relaxed>());
    EXPECT_GT(total, 0u);
}

INSTANTIATE_TEST_SUITE_P(Segments, SegmentCacheUnderLoad, ::testing::Values(40u, 64u, 300u, 5000u));

}  // namespace
}  // namespace orchard
