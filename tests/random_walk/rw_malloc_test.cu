// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Runs of units: of any length, at any place, for any lanes together, and freed with the same length.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/random_walk/algorithms.hpp"
#include "tests/simt/run_emulated.hpp"

namespace orchard {
namespace {

using namespace rig;
using walk::no_page;
using walk::page_number;

template <class Word>
class Runs : public ::testing::Test {
protected:
    static constexpr std::uint32_t width = device::width_of<Word>;

    /// One request of `n` units by the lanes of `mask`: the lowest lane requests the units, the other lanes request
    /// none.
    static page_number get(const pool_memory<Word>& memory, std::uint32_t n, simt::lane_mask mask,
                           std::uint64_t seed = 1, std::uint32_t max_steps = 0) {
        page_number got = no_page;
        const auto result = simt::run_emulated({1, 32}, [&](simt::thread_position at) {
            if ((mask >> at.thread & 1) == 0) {
                return;
            }
            walk::walker<> w;
            w.random = random_of(seed, at.thread);
            w.max_steps = max_steps;
            const bool asks = static_cast<int>(at.thread) == simt::leader_of(mask);
            const page_number mine = walk::rw_malloc::get_units(memory.pool, mask, asks ? n : 0, w);
            if (asks) {
                got = mine;
            } else {
                EXPECT_EQ(mine, no_page);
            }
        });
        EXPECT_TRUE(result.ok) << result.error;
        return got;
    }
};
using both_widths = ::testing::Types<std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(Runs, both_widths, );

TYPED_TEST(Runs, TheOnlyFreeOneIsFoundAtEveryBitAndAcrossWords) {
    constexpr std::uint32_t pages = 5 * 64 + 17;
    for (const std::uint32_t n : {1u, 2u, 31u, 32u, 33u, 63u, 64u, 65u, 130u}) {
        for (std::uint32_t first = 0; first + n <= pages; first += first % 64 == 40 ? 12 : 1) {
            pool_memory<TypeParam> memory(pages);
            memory.take_all();
            for (std::uint32_t i = 0; i < n; ++i) {
                memory.set(first + i, false);
            }
            const simt::lane_mask mask = first % 3 == 0 ? 0xffffffffu : first % 3 == 1 ? 0x80000000u : 0x00204810u;
            ASSERT_EQ(this->get(memory, n + 1, mask), no_page) << n << " at " << first;
            ASSERT_EQ(memory.pages_taken(), pages - n) << "what was claimed in vain is given back";
            ASSERT_EQ(this->get(memory, n, mask), page_number{first}) << n << " at " << first;
            ASSERT_EQ(memory.pages_taken(), pages);
            ASSERT_TRUE(walk::rw_malloc::free_units(memory.pool, page_number{first}));
            ASSERT_EQ(memory.pages_taken(), pages - n);
            ASSERT_EQ(memory.end_bits(), 0u);
        }
    }
}

TYPED_TEST(Runs, AsLongAsThePoolAreFound) {
    for (const std::uint32_t pages : {1u, 31u, 64u, 5000u}) {
        for (const simt::lane_mask mask : {0xffffffffu, 0x8u, 0x00ff0ff0u}) {
            pool_memory<TypeParam> memory(pages);
            EXPECT_EQ(this->get(memory, pages, mask), page_number{0});
            EXPECT_EQ(memory.pages_taken(), pages);
            EXPECT_EQ(this->get(memory, 1, mask), no_page);
            EXPECT_TRUE(walk::rw_malloc::free_units(memory.pool, page_number{0}));
            EXPECT_TRUE(memory.is_clear());
        }
    }
}

TYPED_TEST(Runs, AreFoundByWalkingToo) {
    // Every other run of 40 is free; one step reads 32 words or more and must find one.
    constexpr std::uint32_t pages = 64 * 400;
    for (const std::uint32_t n : {1u, 7u, 33u, 40u}) {
        pool_memory<TypeParam> memory(pages);
        for (std::uint32_t page = 0; page < pages; ++page) {
            memory.set(page, page / 40 % 2 == 0);
        }
        simt::device_word<std::uint32_t> steps{0};
        const auto result = simt::run_emulated({1, 32}, [&](simt::thread_position at) {
            walk::walker<walk::counted> w;
            w.random = random_of(n, at.thread);
            const page_number got = walk::rw_malloc::get_units(memory.pool, 0xffffffffu, at.thread == 3 ? n : 0, w);
            EXPECT_EQ(got == no_page, at.thread != 3);
            steps.fetch_add<simt::order::relaxed>(w.count.steps);
        });
        EXPECT_TRUE(result.ok) << result.error;
        EXPECT_EQ(steps.load<simt::order::relaxed>(), 32u) << "one step, made by 32 lanes";
    }
}

/// The results of the threads of a launch, for their numbers of bytes.
template <class Word>
std::vector<void*> allocate(pool_memory<Word>& memory, const std::vector<std::uint64_t>& bytes, std::uint64_t seed,
                            simt::emulated::costs* costs = nullptr, unsigned workers = 1) {
    std::vector<void*> got(bytes.size());
    std::vector<walk::counted> counts(bytes.size());
    const allocate_all<walk::page_pool<Word>> kernel{memory.pool,   bytes.data(), got.data(),
                                                     counts.data(), bytes.size(), seed};
    const auto result = simt::launch(emulated(workers), simt::grid_for(bytes.size(), 64), kernel);
    EXPECT_TRUE(result.ok) << result.error;
    if (costs != nullptr) {
        *costs = result.costs;
    }
    return got;
}

/// Checks that blocks of those sizes, in units, neither overlap nor leave the pool.
template <class Word>
void expect_apart(const pool_memory<Word>& memory, const std::vector<void*>& got,
                  const std::vector<std::uint64_t>& bytes) {
    const std::uint64_t unit = memory.pool.page_bytes();
    std::vector<bool> owned(memory.pool.pages());
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (got[i] == nullptr) {
            continue;
        }
        const auto first = static_cast<std::uint64_t>(memory.pool.page_of(got[i]));
        const std::uint64_t n = bytes[i] == 0 ? 1 : (bytes[i] + unit - 1) / unit;
        ASSERT_LE(first + n, owned.size());
        for (std::uint64_t u = first; u < first + n; ++u) {
            ASSERT_FALSE(owned[u]) << "unit " << u << " has two owners";
            owned[u] = true;
        }
    }
    ASSERT_EQ(memory.pages_taken(), static_cast<std::uint32_t>(std::count(owned.begin(), owned.end(), true)));
}

TYPED_TEST(Runs, OfAWarpAreOneRunAndFreedOneByOne) {
    pool_memory<TypeParam> memory(64 * 64, 16);
    std::vector<std::uint64_t> bytes(32);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = i % 5 * 16 / 2;  // 0 to 2 units; 0 counts as one
    }
    simt::emulated::costs costs;
    const std::vector<void*> got = allocate(memory, bytes, 5, &costs);
    expect_apart(memory, got, bytes);
    for (std::size_t i = 0; i + 1 < got.size(); ++i) {
        const std::uint64_t units = bytes[i] <= 16 ? 1 : 2;
        EXPECT_EQ(static_cast<char*>(got[i + 1]) - static_cast<char*>(got[i]), static_cast<std::int64_t>(units * 16));
    }
    // One for each word of the run, and one for each lane's end.
    EXPECT_LE(costs.device_atomics, 32u + memory.pages_taken() / this->width + 2);
    for (std::size_t i = 0; i < got.size(); ++i) {
        const std::size_t which = i * 11 % got.size();
        EXPECT_TRUE(walk::rw_malloc::free(memory.pool, got[which]));
        EXPECT_FALSE(walk::rw_malloc::free(memory.pool, got[which])) << "freed twice";
    }
    EXPECT_TRUE(memory.is_clear());
}

TYPED_TEST(Runs, OfAllSizesUntilThePoolIsFullAndAgain) {
    pool_memory<TypeParam> memory(3000, 32);
    std::vector<std::uint64_t> bytes(512);
    walk::random_bits random(11);
    for (std::uint64_t& b : bytes) {
        b = random.below(8) == 0 ? random.below(6000) : random.below(200);
    }
    for (std::uint64_t round = 0; round < 3; ++round) {
        const std::vector<void*> got = allocate(memory, bytes, round, nullptr, 3);
        expect_apart(memory, got, bytes);
        EXPECT_NE(std::count(got.begin(), got.end(), nullptr), 0);
        EXPECT_GT(memory.pages_taken(), 2900u) << "what is small fits into the gaps";
        for (void* p : got) {
            EXPECT_TRUE(p == nullptr || walk::rw_malloc::free(memory.pool, p));
        }
        EXPECT_TRUE(memory.is_clear());
    }
}

TYPED_TEST(Runs, TooLongForThePoolAreRefusedAndOthersServed) {
    pool_memory<TypeParam> memory(1000, 16);
    const std::vector<std::uint64_t> bytes{16, 16 * 1000 + 1, ~std::uint64_t{0}, 1, 16 * 500, 16 * 501};
    const std::vector<void*> got = allocate(memory, bytes, 3);
    expect_apart(memory, got, bytes);
    EXPECT_EQ(got[1], nullptr);
    EXPECT_EQ(got[2], nullptr);
    EXPECT_NE(got[0], nullptr);
    EXPECT_NE(got[3], nullptr);
    EXPECT_NE(got[4], nullptr);
    EXPECT_EQ(got[5], nullptr) << "500 of 1,000 are taken";
}

TYPED_TEST(Runs, WhatIsNoAllocationIsNotFreed) {
    pool_memory<TypeParam> memory(200, 16);
    const std::vector<void*> got = allocate<TypeParam>(memory, {160}, 3);
    auto* const p = static_cast<char*>(got[0]);
    EXPECT_FALSE(walk::rw_malloc::free(memory.pool, p + 1)) << "not the first byte of a unit";
    EXPECT_FALSE(walk::rw_malloc::free(memory.pool, p + 160)) << "behind it";
    EXPECT_FALSE(walk::rw_malloc::free(memory.pool, memory.pool.address(page_number{200}))) << "beyond the pool";
    EXPECT_FALSE(walk::rw_malloc::free(memory.pool, memory.pool.address(page_number{0}) - 16));
    EXPECT_EQ(memory.pages_taken(), 10u);
    EXPECT_TRUE(walk::rw_malloc::free(memory.pool, p));
    EXPECT_TRUE(memory.is_clear());
}

TYPED_TEST(Runs, OfManyBlocksAtOnceDoNotOverlap) {
    constexpr std::uint32_t units = 600;
    pool_memory<TypeParam> memory(units, 16);
    std::vector<simt::device_word<std::uint32_t>> owners(units);
    simt::device_word<std::uint32_t> faults{0};
    simt::device_word<std::uint32_t> nulls{0};
    const auto mark = [&](page_number first, std::uint32_t n, std::uint32_t from, std::uint32_t to) {
        for (std::uint32_t i = 0; i < n; ++i) {
            if (owners[static_cast<std::uint64_t>(first) + i].template exchange<simt::order::relaxed>(to) != from) {
                faults.fetch_add<simt::order::relaxed>(1);
            }
        }
    };
    const auto result = simt::run_emulated(
        {4, 96},
        [&](simt::thread_position at) {
            const auto tag = static_cast<std::uint32_t>(at.global_thread()) + 1;
            walk::walker<> w;
            w.random = random_of(8, at.global_thread());
            for (int round = 0; round < 60; ++round) {
                const std::uint32_t n = w.random.below(6) == 0 ? 1 + w.random.below(150) : 1 + w.random.below(5);
                const page_number first = walk::rw_malloc::get_units(memory.pool, simt::converge(), n, w);
                if (first == no_page) {
                    nulls.fetch_add<simt::order::relaxed>(1);
                    continue;
                }
                mark(first, n, 0, tag);
                if (w.random.below(2) == 0) {
                    simt::pause(0);
                }
                mark(first, n, tag, 0);
                if (!walk::rw_malloc::free_units(memory.pool, first)) {
                    faults.fetch_add<simt::order::relaxed>(1);
                }
            }
        },
        3);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(faults.load<simt::order::relaxed>(), 0u);
    EXPECT_GT(nulls.load<simt::order::relaxed>(), 0u) << "the pool is meant to be full at times";
    EXPECT_LT(nulls.load<simt::order::relaxed>(), 4u * 96 * 60 / 2);
    EXPECT_TRUE(memory.is_clear());
}

}  // namespace
}  // namespace orchard
