// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The arithmetic of a block's mask, on every mask of 16 leaves, against loops over single leaves.

#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

#include "host/leaf_mask.hpp"

namespace orchard::detail {
namespace {

constexpr std::uint32_t leaves = 16;

bool all_free(leaf_mask free, std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t i = first; i < first + count; ++i) {
        if (i >= leaves || (free >> i & 1) == 0) {
            return false;
        }
    }
    return true;
}

std::uint32_t slow_largest_node(leaf_mask free) {
    for (std::uint32_t size = leaves; size != 0; size /= 2) {
        for (std::uint32_t first = 0; first < leaves; first += size) {
            if (all_free(free, first, size)) {
                return size;
            }
        }
    }
    return 0;
}

std::optional<std::uint32_t> slow_tightest_run(leaf_mask free, std::uint32_t count, std::uint32_t alignment) {
    std::optional<std::uint32_t> best;
    std::uint32_t shortest = leaves + 1;
    for (std::uint32_t first = 0; first < leaves; first += alignment) {
        if (!all_free(free, first, count)) {
            continue;
        }
        std::uint32_t length = count;
        for (std::uint32_t i = first; i-- != 0 && (free >> i & 1) != 0;) {
            ++length;
        }
        for (std::uint32_t i = first + count; i < leaves && (free >> i & 1) != 0; ++i) {
            ++length;
        }
        if (length < shortest) {
            shortest = length;
            best = first;
        }
    }
    return best;
}

std::optional<std::uint32_t> slow_tightest_node(leaf_mask free, std::uint32_t size) {
    for (std::uint32_t larger = size; larger <= leaves; larger *= 2) {
        for (std::uint32_t first = 0; first < leaves; first += larger) {
            const std::uint32_t parent = first / (2 * larger) * (2 * larger);
            if (all_free(free, first, larger) && !all_free(free, parent, 2 * larger)) {
                return first;
            }
        }
    }
    return std::nullopt;
}

TEST(leaf_mask, every_mask_of_16_leaves_has_its_largest_node) {
    for (leaf_mask free = 0; free < 1u << leaves; ++free) {
        ASSERT_EQ(largest_node(free), slow_largest_node(free)) << free;
    }
}

TEST(leaf_mask, every_mask_of_16_leaves_has_its_tightest_node) {
    for (leaf_mask free = 0; free < 1u << leaves; ++free) {
        for (std::uint32_t size = 1; size <= leaves; size *= 2) {
            ASSERT_EQ(tightest_node(free, size), slow_tightest_node(free, size)) << free << ", " << size;
        }
    }
}

TEST(leaf_mask, every_mask_of_16_leaves_has_its_tightest_run) {
    for (leaf_mask free = 0; free < 1u << leaves; free += 3) {
        for (std::uint32_t count = 1; count <= leaves; ++count) {
            ASSERT_EQ(tightest_run(free, count, 1), slow_tightest_run(free, count, 1)) << free << ", " << count;
        }
        for (std::uint32_t alignment = 2; alignment <= leaves; alignment *= 2) {
            ASSERT_EQ(tightest_run(free, alignment + 1, alignment), slow_tightest_run(free, alignment + 1, alignment))
                << free << ", aligned to " << alignment;
        }
    }
}

TEST(leaf_mask, a_whole_block_is_one_node_and_one_run) {
    const leaf_mask all = leaf_bits(0, 32);
    EXPECT_EQ(largest_node(all), 32u);
    EXPECT_EQ(largest_node(all & ~leaf_mask{1}), 16u);
    EXPECT_EQ(tightest_node(all, 32), 0u);
    EXPECT_EQ(tightest_node(all, 64), std::nullopt);
    EXPECT_EQ(tightest_run(all, 31, 16), 0u);
    EXPECT_EQ(tightest_run(all & ~leaf_mask{1}, 31, 1), 1u);
    EXPECT_EQ(tightest_run(all & ~leaf_mask{1}, 32, 1), std::nullopt);
    EXPECT_EQ(every_nth(1), all);
    EXPECT_EQ(every_nth(8), 0x01010101u);
    EXPECT_EQ(every_nth(32), 1u);
}

}  // namespace
}  // namespace orchard::detail
