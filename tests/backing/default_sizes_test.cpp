// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The values that a heap chooses if `capacity` and `range` are left to it.

#include <gtest/gtest.h>

#include "runtime/heap/heap_memory.hpp"
#include "uvm/geometry/geometry.hpp"

namespace orchard {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr std::uint64_t tib = std::uint64_t{1} << 40;

options with_share(int percent) {
    options values;
    values.capacity_share = percent;
    return values;
}

TEST(DefaultSizes, CapacityIsAShareOfWhatIsFree) {
    // 100 segments free: a percent of them is one.
    const std::uint64_t free_bytes = 100 * segment_bytes;
    for (const int percent : {1, 50, 90, 99, 100}) {
        EXPECT_EQ(default_cuda_capacity(with_share(percent), free_bytes),
                  static_cast<std::uint64_t>(percent) * segment_bytes)
            << percent;
    }
    EXPECT_EQ(default_cuda_capacity(options{}, free_bytes), 90 * segment_bytes) << "the default of the share";
}

TEST(DefaultSizes, CapacityIsWholeSegmentsAndNeverMoreThanTheShare) {
    const std::uint64_t free_bytes = 139 * gib + 12'345;
    for (int percent = 1; percent <= 100; ++percent) {
        const std::uint64_t capacity = default_cuda_capacity(with_share(percent), free_bytes);
        EXPECT_EQ(capacity % segment_bytes, 0u) << percent;
        EXPECT_LE(capacity * 100, free_bytes * static_cast<std::uint64_t>(percent)) << percent;
        EXPECT_GE((capacity + 2 * segment_bytes) * 100, free_bytes * static_cast<std::uint64_t>(percent)) << percent;
    }
    EXPECT_EQ(default_cuda_capacity(with_share(100), segment_bytes - 1), 0u);
    EXPECT_EQ(default_cuda_capacity(with_share(100), 64 * tib), (max_segments - std::uint64_t{1}) * segment_bytes)
        << "as many as a heap can number";
}

TEST(DefaultSizes, RangeIsFourTimesTheMemoryAndAtLeastOneTebibyte) {
    options values;
    values.capacity = 8 * gib;
    EXPECT_EQ(default_cuda_range(values, 16 * gib), tib);
    EXPECT_EQ(default_cuda_range(values, 256 * gib), tib);
    EXPECT_EQ(default_cuda_range(values, 256 * gib + segment_bytes), tib + 4 * segment_bytes);
    EXPECT_EQ(default_cuda_range(values, 288 * gib + 1), 1152 * gib) << "in whole segments";
    EXPECT_EQ(default_cuda_range(values, 16 * tib), (max_segments - std::uint64_t{1}) * segment_bytes)
        << "as many as a heap can number";
}

TEST(DefaultSizes, RangeHoldsBothBudgets) {
    options values;
    values.capacity = 100 * gib;
    values.host_budget = 2 * tib;
    EXPECT_EQ(default_cuda_range(values, 139 * gib), 2 * tib + 100 * gib);
}

TEST(DefaultSizes, OnTheEmulatedDeviceAreGivenInTheOptions) {
    options values;
    values.backing = backing_option::elastic;
    values.host_budget = gib;
    const auto elastic = make_backing(values, simt::device_kind::emulated);
    ASSERT_TRUE(elastic.ok()) << elastic.status();
    EXPECT_EQ(values.capacity, gib);
    EXPECT_EQ(values.range, 8 * gib);
    EXPECT_EQ((*elastic)->segments(), 8 * gib / segment_bytes);

    options automatic;
    const auto fixed = make_backing(automatic, simt::device_kind::emulated);
    ASSERT_TRUE(fixed.ok()) << fixed.status();
    EXPECT_EQ(automatic.backing, backing_option::fixed);
    EXPECT_EQ(automatic.capacity, gib);
    EXPECT_EQ(automatic.range, gib);
}

TEST(DefaultSizes, ThatAreNamedStayAsTheyAre) {
    options values;
    values.backing = backing_option::elastic;
    values.capacity = 8 * segment_bytes;
    values.range = 24 * segment_bytes;
    const auto made = make_backing(values, simt::device_kind::emulated);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(values.capacity, 8 * segment_bytes);
    EXPECT_EQ(values.range, 24 * segment_bytes);
}

}  // namespace
}  // namespace orchard
