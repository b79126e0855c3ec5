// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Faults for each 2 MiB of 32 lanes when a batch holds k of a warp's faults: docs/uvm.md, section 5, point 5.

#include "uvm/geometry/lane_order.hpp"

#include <numeric>

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"
#include "uvm/model/managed_space.hpp"

namespace orchard::uvm_model {
namespace {

using order = std::vector<std::uint32_t>;

order positions_in(lane_order of) {
    order result;
    for (std::uint32_t lane = 0; lane < max_lanes; ++lane) {
        result.push_back(position_of(of, max_lanes, lane));
    }
    return result;
}

/// Faults until every big page is there, when they are touched in this order and a batch takes the next k that miss.
std::uint64_t faults(const order& touched, std::uint32_t k) {
    managed_space space(segment_bytes, 1);
    EXPECT_TRUE(space.populate({0, segment_bytes}, processor::cpu).ok());
    for (std::size_t next = 0; next < touched.size();) {
        const page_mask there = testing::on_gpu(space);
        page_mask faulted;
        for (; next < touched.size() && faulted.count() < k; ++next) {
            if (!there.test(touched[next] * pages_per_big_page)) {
                faulted.add(touched[next] * pages_per_big_page);
            }
        }
        (void)space.service(0, {faulted, {}});
    }
    return space.counts().distinct_faults;
}

TEST(lane_order_faults, are_those_of_the_documentation) {
    const order ascending = positions_in(lane_order::ascending);
    const order papers = positions_in(lane_order::prefetch_first);
    const struct {
        std::uint32_t k;
        std::uint64_t ascending;
        std::uint64_t papers;
    } table[] = {{4, 16, 12}, {8, 24, 16}, {12, 24, 24}, {14, 28, 25}, {16, 32, 25}};
    for (const auto& row : table) {
        EXPECT_EQ(faults(ascending, row.k), row.ascending) << row.k;
        EXPECT_EQ(faults(papers, row.k), row.papers) << row.k;
    }
    for (std::uint32_t k = 1; k <= max_lanes; ++k) {
        if (k <= 2 || k >= 17) {
            EXPECT_EQ(faults(papers, k), faults(ascending, k)) << k;
        }
        EXPECT_LE(faults(papers, k), faults(ascending, k)) << k;
    }
}

TEST(lane_order_faults, placement_the_other_way_round_costs) {
    order inverse;
    for (std::uint32_t lane = 0; lane < max_lanes; ++lane) {
        inverse.push_back(lane_at(lane_order::prefetch_first, max_lanes, lane));
    }
    EXPECT_EQ(faults(inverse, 1), 9u);
    EXPECT_EQ(faults(positions_in(lane_order::ascending), 1), 6u);
    EXPECT_EQ(faults(positions_in(lane_order::prefetch_first), 1), 6u);
}

// The same through the whole model: the micro-TLB's limit makes a batch of k faults.
TEST(lane_order_faults, a_limited_micro_tlb_shows_them) {
    for (const std::uint32_t k : {4u, 8u, 14u, 16u, 17u}) {
        for (const lane_order of : {lane_order::ascending, lane_order::prefetch_first}) {
            paging_model model = testing::model_of(segment_bytes, 1, "titan_v utlb_faults=" + std::to_string(k));
            ASSERT_TRUE(model.populate({0, segment_bytes}, processor::cpu).ok());
            testing::computed_source source(segment_bytes, 1, 1, [&](auto, auto, std::uint32_t lane) {
                return position_of(of, max_lanes, lane) * big_page_bytes;
            });
            EXPECT_EQ(testing::run(model, source).distinct_faults, faults(positions_in(of), k)) << k;
        }
    }
}

}  // namespace
}  // namespace orchard::uvm_model
