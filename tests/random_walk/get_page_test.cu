// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Every algorithm hands out every page once, then none, and takes all pages back, for any group of lanes.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/random_walk/algorithms.hpp"

namespace orchard {
namespace {

using namespace rig;
using walk::no_page;

template <class Algorithm>
class GetPage : public ::testing::Test {};
TYPED_TEST_SUITE(GetPage, all_algorithms, algorithm_names);

TYPED_TEST(GetPage, HandsOutEveryPageOnceAndThenNoneAndAgain) {
    // Whole words; a last word in part; less than a word; one page.
    for (const std::uint32_t pages : {1024u, 1000u, 37u, 1u}) {
        pool_memory<typename TypeParam::word> memory(pages);
        for (std::uint64_t round = 0; round < 3; ++round) {
            taken_pages all = take<TypeParam>(memory, pages, round, 3);
            EXPECT_EQ(different_pages(all.got, pages), pages) << "of " << pages;
            EXPECT_EQ(memory.pages_taken(), pages);
            const taken_pages more = take<TypeParam>(memory, 70, round + 10, 3);
            EXPECT_EQ(different_pages(more.got, pages), 0u) << "the pool is full";
            EXPECT_EQ(give_back<TypeParam>(memory, all, 3), 0u);
            EXPECT_TRUE(memory.is_clear());
        }
    }
}

TYPED_TEST(GetPage, MoreThreadsThanPagesShareThemAllOut) {
    constexpr std::uint32_t pages = 500;
    pool_memory<typename TypeParam::word> memory(pages);
    taken_pages all = take<TypeParam>(memory, 1500, 7, 3, 4);
    EXPECT_EQ(different_pages(all.got, pages), pages);
    EXPECT_EQ(give_back<TypeParam>(memory, all, 3), 0u);
    EXPECT_TRUE(memory.is_clear());
}

TYPED_TEST(GetPage, TheLastFreePageIsFoundWhereverItIs) {
    constexpr std::uint32_t pages = 200;
    pool_memory<typename TypeParam::word> memory(pages);
    memory.take_all();
    for (std::uint32_t page = 0; page < pages; ++page) {
        memory.set(page, false);
        const taken_pages one = take<TypeParam>(memory, 40, page, 2, 2);
        EXPECT_EQ(different_pages(one.got, pages), 1u);
        EXPECT_TRUE(memory.taken(page));
        EXPECT_EQ(std::count(one.got.begin(), one.got.end(), walk::page_number{page}), 1) << page;
    }
}

TYPED_TEST(GetPage, APageThatIsNotTakenIsNotFreed) {
    pool_memory<typename TypeParam::word> memory(100);
    taken_pages one = take<TypeParam>(memory, 1, 1);
    taken_pages again = one;
    EXPECT_EQ(give_back<TypeParam>(memory, one), 0u);
    EXPECT_EQ(give_back<TypeParam>(memory, again), 1u);
    EXPECT_TRUE(memory.is_clear());
}

/// In each round the lanes of a random mask request a page.
template <page_policy P, class Pool>
struct ask_by_masks {
    Pool pool;
    walk::page_number* got;  // [threads][rounds]
    std::uint32_t rounds;
    std::uint64_t seed;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        walk::walker<> w;
        w.random = random_of(seed, at.global_thread());
        walk::random_bits masks = random_of(seed + 1, at.global_thread() / 32);
        for (std::uint32_t round = 0; round < rounds; ++round) {
            std::uint32_t mask = masks.next();
            mask = round % 3 == 0 ? mask & masks.next() & masks.next() : mask;
            if ((mask >> (at.thread % 32) & 1) != 0) {
                got[at.global_thread() * rounds + round] = walk::get_page<P>(pool, simt::converge(), w);
            }
        }
    }
};

TYPED_TEST(GetPage, AnyMaskOfLanes) {
    constexpr std::uint32_t pages = 5000;
    constexpr std::uint32_t threads = 3 * 96;
    constexpr std::uint32_t rounds = 12;
    using word = typename TypeParam::word;
    pool_memory<word> memory(pages);
    taken_pages all{std::vector<walk::page_number>(threads * rounds, no_page), {}};
    const ask_by_masks<TypeParam::policy, walk::page_pool<word>> kernel{memory.pool, all.got.data(), rounds, 99};
    const auto result = simt::launch(emulated(3), {3, 96}, kernel);
    ASSERT_TRUE(result.ok) << result.error;
    const std::size_t got = different_pages(all.got, pages);
    EXPECT_GT(got, threads * rounds / 4);
    EXPECT_EQ(memory.pages_taken(), got) << "there is room for all, so that no request ends without";
    EXPECT_EQ(give_back<TypeParam>(memory, all, 3), 0u);
    EXPECT_TRUE(memory.is_clear());
}

template <class Algorithm>
class Churn : public ::testing::Test {
protected:
    using word = typename Algorithm::word;
    /// Nulls that were seen.
    std::uint32_t run(std::uint32_t pages, simt::grid shape, int rounds, std::uint64_t seed) {
        pool_memory<word> memory(pages);
        std::vector<simt::device_word<std::uint32_t>> owners(pages);
        simt::device_word<std::uint32_t> faults{0};
        simt::device_word<std::uint32_t> nulls{0};
        const churn_pages<Algorithm::policy, walk::page_pool<word>> kernel{memory.pool, owners.data(), &faults,
                                                                           &nulls,      seed,          rounds};
        const auto result = simt::launch(emulated(3), shape, kernel);
        EXPECT_TRUE(result.ok) << result.error;
        EXPECT_EQ(faults.load<simt::order::acquire>(), 0u) << "a page had two owners, or lost its own";
        EXPECT_TRUE(memory.is_clear()) << "a page was lost";
        return nulls.load<simt::order::acquire>();
    }
};
TYPED_TEST_SUITE(Churn, all_algorithms, algorithm_names);

TYPED_TEST(Churn, WithRoomForAllNobodyGoesWithout) { EXPECT_EQ(this->run(2100, {4, 128}, 60, 3), 0u); }

TYPED_TEST(Churn, InAPoolThatIsOftenFull) { EXPECT_GT(this->run(150, {4, 96}, 60, 4), 0u); }

}  // namespace
}  // namespace orchard
