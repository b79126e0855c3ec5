// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Consequences for layouts (docs/uvm.md, section 5): padding costs chunks, interleaving keeps few VA blocks active.

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::uvm_model {
namespace {

using testing::computed_source;
using testing::kib;
using testing::mib;
using testing::model_of;

constexpr std::uint64_t portion_bytes = 512 * kib;

/// 512 warps, each with a portion of 512 KiB that it accesses four times, 32 pages a step.
result touch_all(portion_policy policy, std::optional<std::uint64_t> chunks) {
    const std::uint32_t own = to_underlying(portion_leaves(policy, leaves_for(portion_bytes)));
    const std::uint64_t spacing = to_underlying(reserved_for(policy, leaf_count{own})) * big_page_bytes;
    const std::uint64_t bytes = 512 * spacing;
    paging_model model = model_of(bytes, chunks);
    EXPECT_TRUE(model.populate({0, bytes}, processor::cpu).ok());
    computed_source source(bytes, 512, 16, [&](std::uint32_t warp, std::uint64_t step, std::uint32_t lane) {
        return warp * spacing + (step % 4 * max_lanes + lane) * os_page_bytes;
    });
    return testing::run(model, source);
}

// Point 2, and E1.
TEST(layout_in_the_model, padding_takes_twice_the_chunks) {
    const result packed = touch_all(portion_policy::packed, std::nullopt);
    const result padded = touch_all(portion_policy::padded, std::nullopt);
    EXPECT_EQ(packed.chunks_used, 128u);
    EXPECT_EQ(padded.chunks_used, 256u);
    EXPECT_EQ(packed.resident_pages, padded.resident_pages) << "the padding itself does not come";
    EXPECT_LT(padded.seconds, 1.5 * packed.seconds) << "it is memory that padding costs, not time";
}

TEST(layout_in_the_model, padding_is_several_times_slower_where_only_packed_fits) {
    const result packed = touch_all(portion_policy::packed, 128);
    const result padded = touch_all(portion_policy::padded, 128);
    EXPECT_EQ(packed.evictions, 0u);
    EXPECT_GT(padded.evictions, 128u);
    EXPECT_GT(padded.seconds, 5 * packed.seconds);
}

/// 8 warps whose lanes each fill 1 MiB from its beginning, at 50 to 100 % of the fastest lane's speed; 75 % of it fits.
result grow(bool interleaved) {
    constexpr std::uint64_t lane_bytes = mib;
    constexpr std::uint64_t bytes = 8 * max_lanes * lane_bytes;
    const std::uint64_t pages = lane_bytes / os_page_bytes;
    paging_model model = model_of(bytes, bytes / segment_bytes * 3 / 4);
    computed_source source(
        bytes, 8, 2 * pages,
        [&](std::uint32_t warp, std::uint64_t step, std::uint32_t lane) -> std::optional<std::uint64_t> {
            const std::uint64_t speed = 128 + (warp * max_lanes + lane) * 37 % 128;
            const std::uint64_t page = step * speed / 256;
            if (page >= pages) {
                return std::nullopt;
            }
            const std::uint64_t base = warp * max_lanes * lane_bytes;
            const std::uint64_t at = page * os_page_bytes;
            return base + (interleaved ? interleaved_offset(tile::k64, max_lanes, lane, at) : lane * lane_bytes + at);
        },
        access_kind::write);
    return testing::run(model, source);
}

// Point 4.
TEST(layout_in_the_model, divergent_growth_wants_tiles) {
    const result linear = grow(false);
    const result tiled = grow(true);
    EXPECT_EQ(linear.accesses, tiled.accesses);
    EXPECT_GT(linear.seconds, 10 * tiled.seconds);
    EXPECT_GT(linear.evictions, 10 * tiled.evictions);
}

// Point 3: one shared, sparse index; 4 KiB tiles bring what is used.
TEST(layout_in_the_model, one_shared_sparse_index_wants_tiles_of_4_kib) {
    constexpr std::uint64_t lane_bytes = 4 * mib;
    const auto read = [](bool interleaved) {
        constexpr std::uint64_t bytes = max_lanes * lane_bytes;
        paging_model model = model_of(bytes);
        EXPECT_TRUE(model.populate({0, bytes}, processor::cpu).ok());
        computed_source source(bytes, 1, 50, [&](auto, std::uint64_t step, std::uint32_t lane) {
            const std::uint64_t at = step * 2'654'435'761 % lane_bytes / 4 * 4;
            return interleaved ? interleaved_offset(tile::k4, max_lanes, lane, at) : lane * lane_bytes + at;
        });
        return testing::run(model, source);
    };
    EXPECT_GT(read(true).useful_pages(), 0.9);
    EXPECT_LT(read(false).useful_pages(), 0.2);
}

}  // namespace
}  // namespace orchard::uvm_model
