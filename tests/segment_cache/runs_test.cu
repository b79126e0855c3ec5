// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The runs that one group puts into the segment cache and takes from it.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/simt/run_emulated.hpp"
#include "tests/support/heap_memory.cuh"

namespace orchard {
namespace {

using device::cache_drain_word;
using device::cache_level;
using device::cache_put;
using device::cache_take;
using rig::heap_memory;
using simt::order;

constexpr simt::lane_mask alone = 1;
// More than two summary words, and a last word that is not full.
constexpr std::uint32_t segments = 2 * 4096 + 100;

segment_run run_at(std::uint32_t first, std::uint32_t count) { return {segment_index{first}, count}; }

TEST(SegmentCache, IsEmptyAtFirst) {
    heap_memory heap(segments);
    segment_run run;
    EXPECT_EQ(cache_level(heap.view), 0u);
    EXPECT_FALSE(cache_take(heap.view, alone, 1, &run));
}

TEST(SegmentCache, GivesBackARunOfEveryLengthThatAWordHolds) {
    heap_memory heap(segments);
    for (std::uint32_t k = 1; k <= 64; ++k) {
        for (const std::uint32_t word : {0u, 63u, 64u, 127u, segments / 64 - 1}) {
            for (const std::uint32_t bit : {0u, (64 - k) / 2, 64 - k}) {
                const segment_run put = run_at(word * 64 + bit, k);
                cache_put(heap.view, put);
                EXPECT_EQ(cache_level(heap.view), k);
                segment_run taken;
                ASSERT_TRUE(cache_take(heap.view, alone, k, &taken)) << word << ":" << bit << "+" << k;
                EXPECT_EQ(taken, put);
                EXPECT_EQ(cache_level(heap.view), 0u);
                EXPECT_EQ(heap.cache_bits(), 0u);
            }
        }
    }
}

TEST(SegmentCache, ARunAcrossWordsIsTakenInPieces) {
    heap_memory heap(segments);
    cache_put(heap.view, run_at(60, 200));
    EXPECT_EQ(cache_level(heap.view), 200u);
    EXPECT_EQ(heap.cache_bits(), 200u);
    EXPECT_TRUE(heap.summary_is_complete());
    segment_run taken;
    EXPECT_FALSE(cache_take(heap.view, alone, 65, &taken)) << "no more than a word's worth";
    std::vector<bool> seen(segments);
    for (const std::uint32_t k : {64u, 64u, 64u, 4u, 4u}) {
        ASSERT_TRUE(cache_take(heap.view, alone, k, &taken)) << k;
        EXPECT_EQ(taken.count, k);
        for (std::uint32_t i = 0; i < k; ++i) {
            const std::uint32_t s = to_underlying(taken.first) + i;
            EXPECT_TRUE(s >= 60 && s < 260 && !seen[s]) << s;
            seen[s] = true;
        }
    }
    EXPECT_EQ(cache_level(heap.view), 0u);
}

TEST(SegmentCache, TheLastSegmentsOfTheHeapAreKeptToo) {
    heap_memory heap(segments);
    cache_put(heap.view, run_at(segments - 7, 7));
    segment_run taken;
    ASSERT_TRUE(cache_take(heap.view, alone, 7, &taken));
    EXPECT_EQ(taken, run_at(segments - 7, 7));
}

TEST(SegmentCache, FindsARunWhereAWordHasOneAndOnlyThere) {
    heap_memory heap(segments);
    std::mt19937_64 random(7);
    for (int round = 0; round < 400; ++round) {
        // A few words, each with two draws' common bits set (dense) or separate (sparse).
        std::vector<std::uint64_t> words(heap.view.cache_words());
        std::uint32_t level = 0;
        for (int i = 0; i < 3; ++i) {
            const auto at = static_cast<std::size_t>(random() % (words.size() - 1));
            words[at] = round % 2 == 0 ? random() | random() | random() : random() & random();
        }
        std::uint32_t longest = 0;
        for (std::size_t w = 0; w < words.size(); ++w) {
            heap.view.cache[w].store<order::relaxed>(words[w]);
            heap.view.cache_summary[w / 64].fetch_or<order::relaxed>(words[w] != 0 ? 1ull << (w % 64) : 0);
            level += static_cast<std::uint32_t>(simt::popcount(words[w]));
            std::uint32_t here = 0;
            for (int b = 0; b < 64; ++b) {
                here = (words[w] >> b & 1) != 0 ? here + 1 : 0;
                longest = std::max(longest, here);
            }
        }
        heap.view.state->cache_level.word.store<order::relaxed>(level);
        segment_run taken;
        EXPECT_FALSE(cache_take(heap.view, alone, longest + 1, &taken));
        EXPECT_EQ(cache_level(heap.view), level);
        EXPECT_TRUE(heap.summary_is_complete());
        ASSERT_TRUE(cache_take(heap.view, alone, longest, &taken)) << "a run of " << longest;
        const std::uint32_t first = to_underlying(taken.first);
        for (std::uint32_t s = first; s < first + longest; ++s) {
            EXPECT_NE(words[s / 64] >> (s % 64) & 1, 0u);
            words[s / 64] &= ~(1ull << (s % 64));
        }
        for (std::size_t w = 0; w < words.size(); ++w) {
            EXPECT_EQ(heap.view.cache[w].load<order::relaxed>(), words[w]) << "word " << w;
        }
        EXPECT_EQ(cache_level(heap.view), level - longest);
    }
}

TEST(SegmentCache, AllLanesOfAGroupGetTheSameRun) {
    heap_memory heap(segments);
    cache_put(heap.view, run_at(4096 + 70, 20));
    simt::device_word<std::uint32_t> wrong{0};
    const auto result = simt::run_emulated({1, 32}, [&](simt::thread_position at) {
        const simt::lane_mask mask = simt::match(simt::converge(), at.thread % 3);
        segment_run taken;
        const bool ok = cache_take(heap.view, mask, 5, &taken);
        const bool same = simt::match(mask, to_underlying(taken.first)) == mask;
        wrong.fetch_add<order::relaxed>(ok && same && taken.count == 5 ? 0 : 1);
    });
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(wrong.load<order::relaxed>(), 0u);
    EXPECT_EQ(cache_level(heap.view), 5u);
    EXPECT_EQ(heap.cache_bits(), 5u);
}

TEST(SegmentCache, ASummaryThatNamesAnEmptyWordIsPutRight) {
    heap_memory heap(segments);
    cache_put(heap.view, run_at(5 * 64, 1));
    heap.view.cache_summary[0].fetch_or<order::relaxed>(1u << 9);
    heap.view.cache_summary[1].fetch_or<order::relaxed>(1u << 9);
    heap.view.state->cache_level.word.store<order::relaxed>(2);  // one more than there is
    segment_run taken;
    ASSERT_TRUE(cache_take(heap.view, alone, 1, &taken));
    EXPECT_EQ(taken, run_at(5 * 64, 1));
    EXPECT_FALSE(cache_take(heap.view, alone, 1, &taken));
    EXPECT_EQ(heap.view.cache_summary[0].load<order::relaxed>(), 0u);
    EXPECT_EQ(heap.view.cache_summary[1].load<order::relaxed>(), 0u);
    cache_put(heap.view, run_at(9 * 64 + 3, 1));
    ASSERT_TRUE(cache_take(heap.view, alone, 1, &taken));
    EXPECT_EQ(taken, run_at(9 * 64 + 3, 1));
}

TEST(SegmentCache, DrainsWordByWord) {
    heap_memory heap(segments);
    cache_put(heap.view, run_at(10, 3));
    cache_put(heap.view, run_at(62, 5));
    EXPECT_EQ(cache_drain_word(heap.view, 0), 0x7ull << 10 | 0x3ull << 62);
    EXPECT_EQ(cache_level(heap.view), 3u);
    EXPECT_EQ(cache_drain_word(heap.view, 0), 0u);
    EXPECT_EQ(cache_drain_word(heap.view, 1), 0x7u);
    EXPECT_EQ(cache_level(heap.view), 0u);
    segment_run taken;
    EXPECT_FALSE(cache_take(heap.view, alone, 1, &taken));
}

TEST(SegmentCache, TakesSomeRunWhateverItsLength) {
    heap_memory heap(segments);
    std::vector<bool> seen(segments);
    for (const segment_run put : {run_at(60, 200), run_at(4096, 1), run_at(4096 + 62, 4), run_at(segments - 3, 3)}) {
        cache_put(heap.view, put);
    }
    segment_run taken;
    std::uint32_t runs = 0;
    for (std::uint32_t left = cache_level(heap.view); left != 0; left -= taken.count, ++runs) {
        ASSERT_TRUE(cache_take(heap.view, alone, 0, &taken));
        ASSERT_GE(taken.count, 1u);
        const std::uint32_t first = to_underlying(taken.first);
        EXPECT_EQ(first / 64, (first + taken.count - 1) / 64) << "a run reaches from one word into the next";
        for (std::uint32_t s = first; s < first + taken.count; ++s) {
            EXPECT_FALSE(seen[s]) << s;
            seen[s] = true;
        }
    }
    EXPECT_EQ(runs, 5u + 1 + 2 + 1) << "not as long as they are";
    EXPECT_EQ(heap.cache_bits(), 0u);
    EXPECT_FALSE(cache_take(heap.view, alone, 0, &taken));
}

TEST(SegmentCache, ASearchForARunOfSeveralLooksAtSoManyWordsAndNoMore) {
    constexpr std::uint32_t words = 2 * device::max_words_for_a_run;
    heap_memory heap(words * 64);
    for (std::uint32_t w = 0; w < words; ++w) {
        cache_put(heap.view, run_at(w * 64 + w % 64, 1));
    }
    const auto loads_of = [&](std::uint32_t k, bool found) {
        const auto result = simt::run_emulated({1, 1}, [&](simt::thread_position) {
            segment_run taken;
            EXPECT_EQ(cache_take(heap.view, simt::converge(), k, &taken), found);
        });
        return result.costs.device_loads;
    };
    const std::uint64_t loads = loads_of(2, false);
    EXPECT_GE(loads, device::max_words_for_a_run);
    EXPECT_LE(loads, device::max_words_for_a_run + words / 64 + 3);
    EXPECT_LE(loads_of(1, true), 6u) << "the level, where what was granted ends (two), two summary words, a word";
    EXPECT_EQ(cache_level(heap.view), words - 1);
}

/// Returns the loads of one lane that takes the only two segments of a segment cache, and then finds none, in a range
/// of `count` segments.
std::uint64_t loads_in_range(std::uint32_t count) {
    device::heap_state state{};
    std::vector<simt::device_word<std::uint64_t>> words((count + 63) / 64);
    std::vector<simt::device_word<std::uint64_t>> summary((words.size() + 63) / 64);
    device::heap_view view;
    view.segments = count;
    view.state = &state;
    view.cache = words.data();
    view.cache_summary = summary.data();
    state.end.device.store<order::relaxed>(701);
    const auto result = simt::run_emulated({1, 1}, [&](simt::thread_position) {
        segment_run taken;
        cache_put(view, run_at(5, 1));
        cache_put(view, run_at(700, 1));
        EXPECT_TRUE(cache_take(view, simt::converge(), 1, &taken));
        EXPECT_TRUE(cache_take(view, simt::converge(), 1, &taken));
        cache_put(view, taken);
        EXPECT_FALSE(cache_take(view, simt::converge(), 2, &taken));
    });
    return result.costs.device_loads;
}

TEST(SegmentCache, ASearchReadsAsManyWordsInALongRangeAsInAShortOne) {
    constexpr std::uint32_t segments_of_64_gib = 1u << 15;
    const std::uint64_t loads = loads_in_range(segments_of_64_gib);
    EXPECT_LE(loads, 24u);
    EXPECT_EQ(loads_in_range(16 * segments_of_64_gib), loads) << "1 TiB";
    EXPECT_EQ(loads_in_range(max_segments - 1), loads) << "32 TiB";
}

TEST(SegmentCache, AHitCostsOneAtomicForTheRunAndOneForTheLevel) {
    heap_memory heap(segments);
    cache_put(heap.view, run_at(64, 64));
    const auto result = simt::run_emulated({1, 32}, [&](simt::thread_position) {
        segment_run taken;
        cache_take(heap.view, simt::converge(), 1, &taken);
    });
    EXPECT_EQ(cache_level(heap.view), 63u);
    EXPECT_EQ(result.costs.device_atomics, 2u);
    EXPECT_EQ(result.costs.host_words_read + result.costs.host_words_written, 0u);
}

}  // namespace
}  // namespace orchard
