// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The van Emde Boas trees of profiling/baselines are ordered sets: they answer as `std::set` does.

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "profiling/baselines/gallatin_veb_tree.hpp"
#include "profiling/baselines/veb_tree.hpp"

namespace orchard::baselines {
namespace {

using oracle = std::set<std::uint32_t>;

// One number, sizes around the leaves of 2 and of 64 numbers, around powers of two, and with an odd number of bits.
constexpr std::uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 63, 64, 65, 100, 128, 1000, 4095, 4096, 4097, 20'000};

std::optional<std::uint32_t> after(const oracle& set, std::uint32_t x) {
    const auto next = set.upper_bound(x);
    return next == set.end() ? std::nullopt : std::optional(*next);
}

// Compares everything that a tree says of its numbers.
template <class Tree>
void expect_same(const Tree& tree, const oracle& set, std::uint32_t universe) {
    ASSERT_EQ(tree.first(), set.empty() ? std::nullopt : std::optional(*set.begin()));
    for (std::uint32_t x = 0; x < universe + 2; ++x) {
        ASSERT_EQ(tree.contains(x), set.count(x) != 0) << x << " of " << universe;
        ASSERT_EQ(tree.successor(x), after(set, x)) << x << " of " << universe;
    }
}

oracle all_below(std::uint32_t universe) {
    oracle set;
    for (std::uint32_t x = 0; x < universe; ++x) {
        set.insert(set.end(), x);
    }
    return set;
}

template <class Tree>
class veb : public ::testing::Test {};
using trees = ::testing::Types<textbook_veb_tree, word_leaf_veb_tree, gallatin_veb_tree>;
TYPED_TEST_SUITE(veb, trees);

TYPED_TEST(veb, is_empty_or_full_at_first) {
    for (const std::uint32_t universe : sizes) {
        ASSERT_NO_FATAL_FAILURE(expect_same(TypeParam(universe, false), {}, universe));
        ASSERT_NO_FATAL_FAILURE(expect_same(TypeParam(universe, true), all_below(universe), universe));
    }
}

TYPED_TEST(veb, without_any_number_has_none) {
    for (const bool full : {false, true}) {
        TypeParam tree(0, full);
        EXPECT_FALSE(tree.insert(0));
        EXPECT_FALSE(tree.erase(0));
        EXPECT_NO_FATAL_FAILURE(expect_same(tree, {}, 0));
    }
}

TYPED_TEST(veb, takes_and_loses_one_number) {
    for (const std::uint32_t universe : sizes) {
        for (const std::uint32_t x : {0u, universe / 2, universe - 1}) {
            TypeParam tree(universe, false);
            EXPECT_FALSE(tree.erase(x));
            EXPECT_TRUE(tree.insert(x));
            EXPECT_FALSE(tree.insert(x));
            ASSERT_NO_FATAL_FAILURE(expect_same(tree, {x}, universe));
            EXPECT_TRUE(tree.erase(x));
            EXPECT_FALSE(tree.erase(x));
            ASSERT_NO_FATAL_FAILURE(expect_same(tree, {}, universe));
        }
    }
}

TYPED_TEST(veb, refuses_what_is_not_below_the_universe) {
    for (const std::uint32_t universe : sizes) {
        TypeParam tree(universe, true);
        for (const std::uint32_t x : {universe, universe + 1, 2 * universe + 7, ~0u}) {
            EXPECT_FALSE(tree.insert(x));
            EXPECT_FALSE(tree.erase(x));
            EXPECT_FALSE(tree.contains(x));
            EXPECT_EQ(tree.successor(x), std::nullopt);
        }
        ASSERT_NO_FATAL_FAILURE(expect_same(tree, all_below(universe), universe));
    }
}

// Every set of eight numbers, made in two ways, and every operation on it.
TYPED_TEST(veb, small_sets_are_right_in_every_state) {
    constexpr std::uint32_t universe = 8;
    for (std::uint32_t members = 0; members < 1u << universe; ++members) {
        for (const bool full : {false, true}) {
            for (std::uint32_t x = 0; x < universe; ++x) {
                TypeParam tree(universe, full);
                oracle set;
                for (std::uint32_t i = 0; i < universe; ++i) {
                    const bool wanted = (members >> i & 1) != 0;
                    ASSERT_EQ(wanted ? tree.insert(i) : tree.erase(i), wanted != full);
                    if (wanted) {
                        set.insert(i);
                    }
                }
                ASSERT_NO_FATAL_FAILURE(expect_same(tree, set, universe));
                ASSERT_EQ(tree.erase(x), set.erase(x) != 0);
                ASSERT_NO_FATAL_FAILURE(expect_same(tree, set, universe));
                ASSERT_TRUE(tree.insert(x));
                set.insert(x);
                ASSERT_NO_FATAL_FAILURE(expect_same(tree, set, universe));
            }
        }
    }
}

// Half of the time more numbers come, half of the time more go, so that the set is full and empty in between.
TYPED_TEST(veb, random_operations_answer_as_std_set) {
    for (const std::uint32_t universe : sizes) {
        for (const bool full : {false, true}) {
            TypeParam tree(universe, full);
            oracle set = full ? all_below(universe) : oracle{};
            std::mt19937 random(universe);
            for (int step = 0; step < 20'000; ++step) {
                const auto x = static_cast<std::uint32_t>(random() % (universe + 1));
                const bool growing = (step / 4000) % 2 == 0;
                if (random() % 8 == 0 ? !growing : growing) {
                    ASSERT_EQ(tree.insert(x), x < universe && set.insert(x).second) << x << " of " << universe;
                } else {
                    ASSERT_EQ(tree.erase(x), set.erase(x) != 0) << x << " of " << universe;
                }
                const auto y = static_cast<std::uint32_t>(random() % universe);
                ASSERT_EQ(tree.contains(y), set.count(y) != 0) << y << " of " << universe;
                ASSERT_EQ(tree.successor(y), after(set, y)) << y << " of " << universe;
                ASSERT_EQ(tree.first(), set.empty() ? std::nullopt : std::optional(*set.begin()));
            }
            ASSERT_NO_FATAL_FAILURE(expect_same(tree, set, universe));
        }
    }
}

TYPED_TEST(veb, a_full_set_is_emptied_from_below_and_filled_again) {
    for (const std::uint32_t universe : sizes) {
        TypeParam tree(universe, true);
        for (std::uint32_t x = 0; x < universe; ++x) {
            ASSERT_EQ(tree.first(), x);
            ASSERT_TRUE(tree.erase(x));
        }
        ASSERT_NO_FATAL_FAILURE(expect_same(tree, {}, universe));
        for (std::uint32_t x = universe; x-- != 0;) {
            ASSERT_TRUE(tree.insert(x));
            ASSERT_EQ(tree.first(), x);
        }
        ASSERT_NO_FATAL_FAILURE(expect_same(tree, all_below(universe), universe));
    }
}

// The largest tree that the benchmark has, with few numbers, so that searches cross large gaps.
TYPED_TEST(veb, sixteen_million_numbers_with_large_gaps) {
    constexpr std::uint32_t universe = 1u << 24;
    TypeParam tree(universe, false);
    oracle set;
    std::mt19937 random(1);
    for (int step = 0; step < 5000; ++step) {
        const auto x = static_cast<std::uint32_t>(random() % universe);
        ASSERT_EQ(tree.insert(x), set.insert(x).second);
        if (step % 3 == 0) {
            const auto y = step % 2 == 0 ? *set.begin() : *set.rbegin();
            ASSERT_TRUE(tree.erase(y));
            set.erase(y);
        }
        const auto z = static_cast<std::uint32_t>(random() % universe);
        ASSERT_EQ(tree.successor(z), after(set, z));
    }
    std::optional<std::uint32_t> at = tree.first();
    for (const std::uint32_t x : set) {
        ASSERT_EQ(at, x);
        at = tree.successor(x);
    }
    ASSERT_EQ(at, std::nullopt);
}

TYPED_TEST(veb, a_moved_tree_keeps_its_numbers_and_takes_more) {
    constexpr std::uint32_t universe = 1000;
    TypeParam first(universe, false);
    first.insert(3);
    first.insert(500);
    first.insert(999);
    TypeParam tree = std::move(first);
    oracle set{3, 500, 999};
    for (std::uint32_t x = 0; x < universe; x += 7) {
        tree.insert(x);
        set.insert(x);
    }
    EXPECT_NO_FATAL_FAILURE(expect_same(tree, set, universe));
}

}  // namespace
}  // namespace orchard::baselines
