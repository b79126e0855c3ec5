// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The orders of lanes: permutations, the paper's sequence, its rule for the end of a batch, and the driver's faults.

#include "uvm/geometry/lane_order.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace orchard {
namespace {

using positions = std::vector<std::uint32_t>;

positions positions_in(lane_order order, std::uint32_t width) {
    positions result;
    for (std::uint32_t l = 0; l < width; ++l) {
        result.push_back(position_of(order, width, l));
    }
    return result;
}

TEST(LaneOrder, DealsEveryPositionOnce) {
    for (const lane_order order : {lane_order::ascending, lane_order::prefetch_first}) {
        for (std::uint32_t width = 1; width <= 32; ++width) {
            std::vector<int> dealt(width, 0);
            for (const std::uint32_t p : positions_in(order, width)) {
                ASSERT_LT(p, width);
                ++dealt[p];
            }
            EXPECT_EQ(dealt, std::vector<int>(width, 1)) << width;
        }
    }
}

TEST(LaneOrder, IsInverted) {
    for (const lane_order order : {lane_order::ascending, lane_order::prefetch_first}) {
        for (std::uint32_t width = 1; width <= 32; ++width) {
            for (std::uint32_t l = 0; l < width; ++l) {
                EXPECT_EQ(lane_at(order, width, position_of(order, width, l)), l) << width;
                EXPECT_EQ(position_of(order, width, lane_at(order, width, l)), l) << width;
            }
        }
    }
}

TEST(LaneOrder, IsThePapersSequence) {
    EXPECT_EQ(positions_in(lane_order::ascending, 5), (positions{0, 1, 2, 3, 4}));
    EXPECT_EQ(positions_in(lane_order::prefetch_first, 32),
              (positions{0,  1, 2, 4, 6, 8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28,
                         30, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31}));
    EXPECT_EQ(positions_in(lane_order::prefetch_first, 1), (positions{0}));
    EXPECT_EQ(positions_in(lane_order::prefetch_first, 3), (positions{0, 1, 2}));
    EXPECT_EQ(positions_in(lane_order::prefetch_first, 4), (positions{0, 1, 2, 3}));
    EXPECT_EQ(positions_in(lane_order::prefetch_first, 7), (positions{0, 1, 2, 4, 6, 3, 5}));
    EXPECT_EQ(positions_in(lane_order::prefetch_first, 8), (positions{0, 1, 2, 4, 6, 3, 5, 7}));
}

TEST(LaneOrder, IsDiscreteAtTheEndOfEveryBatchInItsFirstHalf) {
    for (std::uint32_t width = 4; width <= 32; ++width) {
        const positions order = positions_in(lane_order::prefetch_first, width);
        std::vector<bool> there(width + 1, false);
        for (std::uint32_t i = 0; i < width; ++i) {
            const bool evens_left = i <= (width + 1) / 2;
            if (i >= 2 && evens_left) {
                EXPECT_FALSE(there[order[i] ^ 1]) << "a batch that ends with fault " << i << " of " << width;
            }
            there[order[i]] = true;
        }
    }
}

/// One VA block under the driver's rules P2 to P4 (docs/uvm.md): 32 big pages, those of a warp's row.
class va_block {
public:
    [[nodiscard]] bool has(std::uint32_t page) const { return (resident_ >> page & 1) != 0; }
    /// Services one batch of faults, and prefetches.
    void service(const positions& faults) {
        for (const std::uint32_t page : faults) {
            resident_ |= 1u << page;
        }
        const std::uint32_t before = resident_;
        for (const std::uint32_t page : faults) {
            std::uint32_t largest = 0;
            for (std::uint32_t pages = 2; pages <= 32; pages *= 2) {
                const std::uint64_t ones = (std::uint64_t{1} << pages) - 1;
                const auto node = static_cast<std::uint32_t>(ones << (page & ~(pages - 1)));
                if (static_cast<std::uint32_t>(std::popcount(before & node)) * 100 > pages * 51) {
                    largest = node;
                }
            }
            resident_ |= largest;
        }
    }

private:
    std::uint32_t resident_ = 0;
};

/// Faults until all 32 pages are there, when each is touched once, in this order, and a batch holds `batch` faults.
std::uint32_t faults(const positions& order, std::uint32_t batch) {
    va_block block;
    std::uint32_t count = 0;
    std::size_t next = 0;
    while (next < order.size()) {
        positions faulted;
        for (; next < order.size() && faulted.size() < batch; ++next) {
            if (!block.has(order[next])) {
                faulted.push_back(order[next]);
            }
        }
        block.service(faulted);
        count += static_cast<std::uint32_t>(faulted.size());
    }
    return count;
}

TEST(LaneOrder, SavesTheFaultsThatTheDocumentationSays) {
    const positions ascending = positions_in(lane_order::ascending, 32);
    const positions papers = positions_in(lane_order::prefetch_first, 32);
    const auto expect = [&](std::uint32_t batch, std::uint32_t with_ascending, std::uint32_t with_papers) {
        EXPECT_EQ(faults(ascending, batch), with_ascending) << batch;
        EXPECT_EQ(faults(papers, batch), with_papers) << batch;
    };
    expect(4, 16, 12);
    expect(8, 24, 16);
    expect(12, 24, 24);
    expect(14, 28, 25);
    expect(16, 32, 25);
    for (std::uint32_t batch = 1; batch <= 32; ++batch) {
        EXPECT_LE(faults(papers, batch), faults(ascending, batch)) << batch;
        if (batch <= 2 || batch >= 17) {
            EXPECT_EQ(faults(papers, batch), faults(ascending, batch)) << batch;
        }
    }
}

TEST(LaneOrder, WouldCostFaultsTheOtherWayRound) {
    // Lane 4 at position 3, and so on: the lanes, which fault in ascending order, would reach 0, 1, 2, 17, 3, 18, ...
    positions inverse;
    for (std::uint32_t l = 0; l < 32; ++l) {
        inverse.push_back(lane_at(lane_order::prefetch_first, 32, l));
    }
    EXPECT_EQ(faults(inverse, 1), 9u);
    EXPECT_EQ(faults(positions_in(lane_order::prefetch_first, 32), 1), 6u);
}

}  // namespace
}  // namespace orchard
