// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Rules P2 to P5 of docs/uvm.md: the pages that the prefetcher brings in a complete VA block.

#include "uvm/model/prefetch_tree.hpp"

#include <random>

#include <gtest/gtest.h>

#include "tests/uvm_model/sources.hpp"

namespace orchard::uvm_model {
namespace {

using testing::big_pages;
using testing::first_pages;
using testing::pages;
using testing::whole;

/// Leaves that are wholly in `mask`.
std::uint32_t leaves_of(const page_mask& mask) {
    std::uint32_t leaves = 0;
    for (std::uint32_t l = 0; l < 32; ++l) {
        leaves |= mask.count({l * 16, l * 16 + 16}) == 16 ? 1u << l : 0;
    }
    return leaves;
}

TEST(prefetch_tree, one_fault_grows_to_its_big_page) {
    for (const std::uint32_t page : {0u, 5u, 15u, 16u, 100u, 511u}) {
        const page_mask faulted = pages({page});
        const std::uint32_t first = page / 16 * 16;
        EXPECT_EQ(prefetch_mask(whole, {}, faulted), page_mask({first, first + 16}).without(faulted)) << page;
    }
}

// P5
TEST(prefetch_tree, what_faulted_is_not_prefetched) {
    const page_mask faulted = pages({0, 1, 17});
    EXPECT_EQ(prefetch_mask(whole, {}, faulted), big_pages({0, 1}).without(faulted));
    EXPECT_TRUE(prefetch_mask(whole, {}, page_mask(whole)).empty());
}

TEST(prefetch_tree, nothing_comes_without_a_fault) {
    EXPECT_TRUE(prefetch_mask(whole, big_pages({0, 1, 2, 4, 5, 6}), {}).empty());
}

// P3: the first count of leaves that passes, for each size of node: strictly more than 51 %.
TEST(prefetch_tree, first_count_that_passes_for_each_node) {
    const struct {
        std::uint32_t leaves;
        std::uint32_t needed;
    } table[] = {{2, 2}, {4, 3}, {8, 5}, {16, 9}, {32, 17}};
    for (const auto& row : table) {
        for (std::uint32_t k = 1; k <= row.leaves; ++k) {
            // k leaves of the node, spread so that no smaller node passes before it has to: every second one first.
            page_mask resident;
            std::uint32_t last = 0;
            std::uint32_t count = 0;
            for (const std::uint32_t odd : {0u, 1u}) {
                for (std::uint32_t l = odd; l < row.leaves && count < k; l += 2, ++count) {
                    last = l;
                    resident.add(page_range{l * 16, l * 16 + 16});
                }
            }
            const page_mask faulted = pages({last * 16});
            const page_mask all = resident | prefetch_mask(whole, resident.without(faulted), faulted);
            EXPECT_EQ(all.count({0, row.leaves * 16}) == row.leaves * 16, k >= row.needed) << k << " of " << row.leaves;
        }
    }
}

TEST(prefetch_tree, the_threshold_is_compared_strictly) {
    // 51 of 100 is not more than 51 %; of 4 KiB pages 8 of 16 and 262 of 512 show it: 262 * 100 > 512 * 51 = 26112.
    EXPECT_EQ(262u * 100 > 512u * 51, true);
    EXPECT_EQ(261u * 100 > 512u * 51, false);
    for (const std::uint32_t resident : {245u, 246u}) {
        // A head of `resident` pages, and a fault that adds a big page: 261, or 262 pages of the root.
        const page_mask head({0, resident});
        const page_mask got = head | prefetch_mask(whole, head, pages({511})) | pages({511});
        EXPECT_EQ(got == page_mask(whole), resident == 246) << resident;
    }
}

TEST(prefetch_tree, a_larger_node_passes_though_a_smaller_one_on_the_way_fails) {
    // The fault's pair has 1 of 2, its four 1 of 4; the node of eight has 5 of 8.
    const page_mask got = prefetch_mask(whole, big_pages({0, 1, 2, 3}), first_pages({5}));
    EXPECT_EQ(leaves_of(got | first_pages({5})) & 0xffu, 0xffu);
    EXPECT_EQ(leaves_of(got) >> 8, 0u);
}

// docs/uvm.md, section 1, consequence 1.
TEST(prefetch_tree, theorem_1_of_alignmalloc_does_not_hold) {
    const page_mask resident = big_pages({0, 1, 4});
    const page_mask after = resident | first_pages({2}) | prefetch_mask(whole, resident, first_pages({2}));
    EXPECT_EQ(leaves_of(after), 0b11111u) << "5 of 8, neither at most half nor all";
}

// P4, and consequence 2: 1, 3, 4, 0, one fault each; then 5 still faults.
TEST(prefetch_tree, there_is_no_cascade) {
    page_mask resident;
    for (const std::uint32_t leaf : {1u, 3u, 4u, 0u}) {
        ASSERT_FALSE(resident.test(leaf * 16)) << leaf;
        const page_mask faulted = first_pages({leaf});
        resident |= faulted | prefetch_mask(whole, resident, faulted);
    }
    EXPECT_EQ(leaves_of(resident), 0b11111u);
    EXPECT_FALSE(resident.test(5 * 16)) << "a cascading driver would have filled {0..7}";
    resident |= first_pages({5}) | prefetch_mask(whole, resident, first_pages({5}));
    EXPECT_EQ(leaves_of(resident), 0xffu);
}

TEST(prefetch_tree, faults_of_one_service_count_together) {
    // One by one 0, 2, 4, 6, ... would never make a pair; together 17 leaves of 32 bring all.
    page_mask faulted;
    for (std::uint32_t l = 0; l < 32; l += 2) {
        faulted.add(l * 16);
    }
    EXPECT_EQ(leaves_of(prefetch_mask(whole, {}, faulted) | faulted), 0x55555555u);
    faulted.add(16);
    EXPECT_EQ(prefetch_mask(whole, {}, faulted) | faulted, page_mask(whole));
}

/// The rule again, leaf by leaf as a tree of counts, to be compared with the fast implementation.
page_mask by_the_book(const page_mask& resident, const page_mask& faulted) {
    bool t[512];
    for (std::uint32_t p = 0; p < 512; ++p) {
        t[p] = resident.test(p) || faulted.count({p / 16 * 16, p / 16 * 16 + 16}) != 0;
    }
    page_mask result;
    for (std::uint32_t p = 0; p < 512; ++p) {
        if (!faulted.test(p)) {
            continue;
        }
        for (std::uint32_t size = 512; size >= 1; size /= 2) {
            std::uint32_t count = 0;
            const std::uint32_t first = p / size * size;
            for (std::uint32_t q = first; q < first + size; ++q) {
                count += t[q] ? 1 : 0;
            }
            if (count * 100 > size * 51) {
                result.add(page_range{first, first + size});
                break;
            }
        }
    }
    return result.without(faulted);
}

TEST(prefetch_tree, agrees_with_the_rule_by_the_book) {
    std::mt19937_64 random(11);
    for (int round = 0; round < 3000; ++round) {
        page_mask resident;
        page_mask faulted;
        for (std::uint32_t w = 0; w < words_per_segment; ++w) {
            const std::uint64_t thin = random() & random() & random() & random() & random();
            resident.words[w] = round % 3 == 0 ? random() & random() : thin;
            faulted.words[w] = round % 2 == 0 ? thin & random() : 0;
        }
        faulted.add(static_cast<std::uint32_t>(random() % 512));
        faulted = faulted.without(resident);
        ASSERT_EQ(prefetch_mask(whole, resident, faulted), by_the_book(resident, faulted)) << round;
    }
}

TEST(prefetch_tree, whole_big_pages_of_a_block) {
    EXPECT_EQ(big_pages_in(whole), whole);
    EXPECT_EQ(big_pages_in({5, 40}), (page_range{16, 32}));
    EXPECT_EQ(big_pages_in({5, 31}), (page_range{}));
    EXPECT_EQ(big_pages_in({16, 32}), (page_range{16, 32}));
}

}  // namespace
}  // namespace orchard::uvm_model
