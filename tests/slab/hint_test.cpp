// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Where lanes are at its hint: warps that follow each other do not meet, and no hint lies outside of its slab.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "device/small/hint.cuh"

namespace orchard {
namespace {

using device::hint_of;
using device::page_hint;

class EveryClassHome : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(EveryClassHome, LanesOfManyWarpsHavePagesOfTheirOwn) {
    const std::uint32_t c = GetParam();
    const class_shape shape = shape_of(c);
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    std::uint32_t beyond = 0;  // lanes after the end of a slab whose last unit is incomplete
    constexpr std::uint32_t warps = 5000;
    for (std::uint32_t warp = 0; warp < warps; ++warp) {
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
            const page_hint hint = hint_of(shape, warp, lane);
            ASSERT_NE(hint.beside >> lane & 1, 0u) << "a lane is beside itself";
            ASSERT_LT(hint.unit * 32, class_pages(c)) << "warp " << warp;
            const std::uint32_t page = hint.unit * 32 + hint.bit;
            if (page >= class_pages(c)) {
                ++beyond;
                continue;
            }
            ASSERT_TRUE(seen.emplace(hint.index, page).second) << "warp " << warp << ", lane " << lane;
        }
    }
    EXPECT_LE(beyond, warps * 32 / 4);
}

TEST_P(EveryClassHome, LanesBesideEachOtherShareOneUnit) {
    const class_shape shape = shape_of(GetParam());
    for (const std::uint32_t warp : {0u, 1u, 77u, 1'000'000u, 0xffffffffu}) {
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
            const page_hint hint = hint_of(shape, warp, lane);
            const auto first = static_cast<std::uint32_t>(simt::lowest_bit(hint.beside));
            const page_hint other = hint_of(shape, warp, first);
            EXPECT_EQ(other.index, hint.index);
            EXPECT_EQ(other.unit, hint.unit);
            EXPECT_EQ(hint.bit, lane - first);
        }
    }
}

TEST_P(EveryClassHome, BeyondTheEndTheHomesAreSpreadEvenly) {
    const class_shape shape = shape_of(GetParam());
    const std::uint32_t units = std::max(shape.pages() / 32, 1u);
    for (const std::uint32_t places : {1u, 3u, 50u}) {
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> load;
        const std::uint32_t each = 20;
        for (std::uint32_t n = 0; n < places * units * each; ++n) {
            const page_hint hint{0, 0, 5, 32, n};
            const page_hint other = device::spread_hint(hint, places, shape.pages());
            ASSERT_LT(other.index, places);
            ASSERT_LT(other.unit, units);
            EXPECT_EQ(other.bit, hint.bit);
            EXPECT_EQ(other.beside, hint.beside);
            ++load[{other.index, other.unit}];
        }
        EXPECT_EQ(load.size(), places * units);
        for (const auto& [where, n] : load) {
            EXPECT_NEAR(n, each, each / 4) << where.first << ", " << where.second;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Classes, EveryClassHome, ::testing::Range(0u, class_count));

}  // namespace
}  // namespace orchard
