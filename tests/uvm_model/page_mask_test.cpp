// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Sets of 512 pages, against counting page by page.

#include "uvm/model/page_mask.hpp"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace orchard::uvm_model {
namespace {

TEST(page_mask, every_range) {
    for (std::uint32_t first = 0; first <= pages_per_segment; first += 13) {
        for (std::uint32_t end = first; end <= pages_per_segment; end += 7) {
            const page_mask mask({first, end});
            ASSERT_EQ(mask.count(), end - first);
            ASSERT_EQ(mask.empty(), end == first);
            ASSERT_EQ(mask.runs(), end == first ? 0u : 1u);
            for (std::uint32_t p = 0; p < pages_per_segment; ++p) {
                ASSERT_EQ(mask.test(p), p >= first && p < end) << first << ", " << end << ": " << p;
            }
        }
    }
    EXPECT_EQ(page_mask({0, 512}).count(), 512u);
    EXPECT_TRUE(page_mask({512, 512}).empty());
}

TEST(page_mask, counts_runs_and_big_pages_of_random_sets) {
    std::mt19937_64 random(3);
    for (int round = 0; round < 200; ++round) {
        page_mask mask;
        std::vector<bool> in(pages_per_segment + 1, false);
        for (int i = 0; i < 1 << (round % 10); ++i) {
            const auto page = static_cast<std::uint32_t>(random() % pages_per_segment);
            mask.add(page);
            in[page] = true;
        }
        std::uint32_t runs = 0;
        std::uint32_t big = 0;
        for (std::uint32_t p = 0; p < pages_per_segment; ++p) {
            runs += in[p] && (p == 0 || !in[p - 1]) ? 1 : 0;
            bool any = false;
            for (std::uint32_t q = p; p % 16 == 0 && q < p + 16; ++q) {
                any = any || in[q];
            }
            big += any ? 1 : 0;
        }
        ASSERT_EQ(mask.runs(), runs);
        page_mask again;
        mask.each_run([&](page_range run) {
            again.add(run);
            --runs;
        });
        ASSERT_EQ(again, mask);
        ASSERT_EQ(runs, 0u);
        ASSERT_EQ(big_pages_of(mask), big);
        const auto first = static_cast<std::uint32_t>(random() % pages_per_segment);
        const auto end = first + static_cast<std::uint32_t>(random() % (pages_per_segment - first));
        std::uint32_t count = 0;
        for (std::uint32_t p = first; p < end; ++p) {
            count += in[p] ? 1 : 0;
        }
        ASSERT_EQ(mask.count({first, end}), count);
        std::uint32_t seen = 0;
        mask.each_while([&](std::uint32_t p) {
            EXPECT_TRUE(in[p]);
            return ++seen < 5;
        });
        ASSERT_EQ(seen, std::min(5u, mask.count()));
    }
}

}  // namespace
}  // namespace orchard::uvm_model
