// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Faults that published code of these algorithms is known for, and that this one must not have. (Runs found at bit 0
/// only, and shifts by a word's width: rw_malloc_test.cu, bits_test.cpp.)

#include <gtest/gtest.h>

#include <vector>

#include "tests/random_walk/algorithms.hpp"

namespace orchard {
namespace {

using namespace rig;
using walk::no_page;

template <class Algorithm>
class Faults : public ::testing::Test {};
TYPED_TEST_SUITE(Faults, all_algorithms, algorithm_names);

/// Half of the warps free the pages that they are given, one after another, while the other half get pages, all in the
/// same few words.
template <page_policy P, class Pool>
struct free_beside_claims {
    Pool pool;
    const walk::page_number* given;  // [threads]
    walk::page_number* got;          // [threads][rounds]
    std::uint32_t rounds;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        walk::walker<> w;
        w.random = random_of(21, t);
        if (t / 32 % 2 == 0) {
            simt::pause(0);
            if (given[t] != no_page) {
                walk::free_page<P>(pool, given[t]);
            }
            return;
        }
        for (std::uint32_t round = 0; round < rounds; ++round) {
            got[t * rounds + round] = walk::get_page<P>(pool, simt::converge(), w);
            simt::pause(0);
        }
    }
};

// A lane that writes back its copy of a word makes a page taken again that was freed meanwhile.
TYPED_TEST(Faults, APageFreedWhileOthersClaimInItsWordIsNotLost) {
    using word = typename TypeParam::word;
    constexpr std::uint32_t pages = 130;
    constexpr std::uint32_t rounds = 3;
    constexpr simt::grid shape{4, 128};
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        pool_memory<word> memory(pages);
        taken_pages given = take<TypeParam>(memory, 100, seed);
        given.got.resize(shape.blocks * shape.threads_per_block, no_page);
        // Distributes the pages over the lanes of the warps that free.
        std::vector<walk::page_number> spread(given.got.size(), no_page);
        for (std::size_t i = 0; i < 100; ++i) {
            spread[i / 32 * 64 + i % 32] = given.got[i];
        }
        taken_pages all{std::vector<walk::page_number>(spread.size() * rounds, no_page), {}};
        const free_beside_claims<TypeParam::policy, walk::page_pool<word>> kernel{memory.pool, spread.data(),
                                                                                  all.got.data(), rounds};
        const auto result = simt::launch(emulated(3), shape, kernel);
        ASSERT_TRUE(result.ok) << result.error;
        ASSERT_EQ(different_pages(all.got, pages), pages) << "all were free at last, and many more were asked for";
        ASSERT_EQ(give_back<TypeParam>(memory, all), 0u);
        ASSERT_TRUE(memory.is_clear());
    }
}

// Lanes of a warp that draw the same word must not get the same page; here they all draw the same word.
TYPED_TEST(Faults, LanesAtOneWordGetPagesOfTheirOwn) {
    constexpr std::uint32_t pages = 32;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        pool_memory<typename TypeParam::word> memory(pages);
        taken_pages all = take<TypeParam>(memory, 32, seed);
        ASSERT_EQ(different_pages(all.got, pages), pages);
        ASSERT_EQ(give_back<TypeParam>(memory, all), 0u);
    }
}

// A full pool: the loop of the paper has no exit. Here the steps are those that were allowed.
TYPED_TEST(Faults, AFullPoolIsLeftAfterSoManySteps) {
    pool_memory<typename TypeParam::word> memory(4096);
    memory.take_all();
    const taken_pages none = take<TypeParam>(memory, 100, 3, 2, 50);
    EXPECT_EQ(different_pages(none.got, 4096), 0u);
    for (const walk::counted& c : none.counts) {
        // For RW_malloc: steps for the group together, with shorter and shorter runs, then for one lane alone.
        EXPECT_LE(c.steps, TypeParam::policy == page_policy::rw_malloc ? 50u + 6 * 8 + 1 : 50u);
        EXPECT_GE(c.steps, 1u);
    }
    EXPECT_EQ(memory.pages_taken(), 4096u);
    EXPECT_EQ(memory.locks_held(), 0u);
}

// Pages that a warp saw and did not need stay free, and so do those that it claimed in vain.
TYPED_TEST(Faults, NothingIsTakenThatNobodyGot) {
    constexpr std::uint32_t pages = 700;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        pool_memory<typename TypeParam::word> memory(pages);
        memory.leave_free(400, seed);
        const taken_pages some = take<TypeParam>(memory, 150, seed, 3);
        ASSERT_EQ(different_pages(some.got, pages), 150u);
        ASSERT_EQ(memory.pages_taken(), 300u + 150u);
        ASSERT_EQ(memory.locks_held(), 0u);
    }
}

// A lock that is never released, because its holder stopped, does not prevent other threads from getting pages.
TEST(LockMap, ThatIsHeldForEverOnlySlowsDown) {
    using locked = algorithm<page_policy::corw_locked, std::uint32_t>;
    pool_memory<std::uint32_t> memory(320);
    memory.pool.locks(0).fetch_or<simt::order::relaxed>(0x3ffu);
    taken_pages all = take<locked>(memory, 320, 5, 2);
    EXPECT_EQ(different_pages(all.got, 320), 320u);
    EXPECT_EQ(give_back<locked>(memory, all), 0u);
    EXPECT_EQ(memory.locks_held(), 10u);
}

}  // namespace
}  // namespace orchard
