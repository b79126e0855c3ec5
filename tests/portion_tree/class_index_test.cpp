// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The index of classes against a plain array, at sizes on both sides of a level's border.

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "host/class_index.hpp"

namespace orchard::detail {
namespace {

class class_index_sizes : public ::testing::TestWithParam<std::uint32_t> {};

std::optional<std::uint32_t> slow_tightest(const std::vector<std::uint32_t>& class_of, std::uint32_t least) {
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = 0; i < class_of.size(); ++i) {
        if (class_of[i] >= least && (!best || class_of[i] < class_of[*best])) {
            best = i;
        }
    }
    return best;
}

TEST_P(class_index_sizes, answers_as_an_array) {
    const std::uint32_t members = GetParam();
    constexpr std::uint32_t classes = 7;
    class_index index(members, classes);
    std::vector<std::uint32_t> class_of(members);
    std::mt19937 random(members);
    for (int step = 0; step < 400; ++step) {
        // Few members are in a class for the first half, most for the second, so that nodes run empty and fill.
        const auto member = static_cast<std::uint32_t>(random() % members);
        const auto to = static_cast<std::uint32_t>(random() % (step < 200 && step % 4 != 0 ? 1 : classes + 1));
        index.move(member, class_of[member], to);
        class_of[member] = to;
        for (std::uint32_t least = 1; least <= classes + 1; ++least) {
            ASSERT_EQ(index.tightest(least), slow_tightest(class_of, least)) << step << ", " << least;
        }
    }
    const absl::Status s = index.validate([&](std::uint32_t i) { return class_of[i]; });
    EXPECT_TRUE(s.ok()) << s;
    class_of[0] = class_of[0] % classes + 1;
    EXPECT_FALSE(index.validate([&](std::uint32_t i) { return class_of[i]; }).ok());
}

INSTANTIATE_TEST_SUITE_P(borders, class_index_sizes, ::testing::Values(1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 5000u));

TEST(class_index, without_members_has_none) {
    class_index index(0, 3);
    EXPECT_EQ(index.tightest(1), std::nullopt);
    EXPECT_EQ(index.tightest(64), std::nullopt);
    EXPECT_TRUE(index.validate([](std::uint32_t) { return 0u; }).ok());
}

TEST(class_index, the_last_of_the_most_members_is_found) {
    class_index index(1u << 24, 1);
    index.move((1u << 24) - 1, 0, 1);
    EXPECT_EQ(index.tightest(1), (1u << 24) - 1);
    index.move((1u << 24) - 1, 1, 0);
    EXPECT_EQ(index.tightest(1), std::nullopt);
}

}  // namespace
}  // namespace orchard::detail
