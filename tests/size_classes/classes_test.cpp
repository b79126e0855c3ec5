// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The table of page classes: every size has the smallest class that holds it, and the rounding is bounded.

#include "uvm/geometry/size_classes.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace orchard {
namespace {

TEST(size_classes, grow_strictly_in_multiples_of_16) {
    EXPECT_EQ(class_bytes(0), 16u);
    for (std::uint32_t c = 0; c < class_count; ++c) {
        EXPECT_EQ(class_bytes(c) % 16, 0u);
        if (c != 0) {
            EXPECT_GT(class_bytes(c), class_bytes(c - 1));
        }
    }
    EXPECT_EQ(class_bytes(class_count - 1), largest_page_bytes);
}

TEST(size_classes, every_size_has_the_smallest_class_that_holds_it) {
    std::uint32_t expected = 0;
    for (std::uint32_t n = 1; n <= largest_page_bytes; ++n) {
        expected += n > class_bytes(expected) ? 1 : 0;
        ASSERT_EQ(class_of(n), expected) << n;
    }
}

TEST(size_classes, known_at_compile_time_as_at_run_time) {
    static_assert(class_of(1) == 0 && class_of(65) == 4 && class_of(4096) == 27 && class_of(4097) == 28);
    volatile std::uint32_t at_run_time = 4096;
    EXPECT_EQ(class_of(at_run_time), 27u);
    at_run_time = 4097;
    EXPECT_EQ(class_of(at_run_time), 28u);
}

TEST(size_classes, waste_is_below_20_percent_of_a_page_above_64_bytes) {
    for (std::uint32_t c = 4; c < class_count; ++c) {
        const std::uint32_t smallest = class_bytes(c - 1) + 1;
        EXPECT_LT(class_bytes(c) - smallest, class_bytes(c) / 5.0) << "class " << c;
    }
}

TEST(size_classes, powers_of_two_are_classes_of_their_own) {
    for (std::uint32_t n = 16; n <= largest_page_bytes; n *= 2) {
        EXPECT_EQ(class_bytes(class_of(n)), n);
    }
}

TEST(size_classes, pages_of_a_power_of_two_are_aligned_to_themselves) {
    for (std::uint32_t c = 0; c < class_count; ++c) {
        const std::uint32_t n = class_bytes(c);
        const std::uint32_t largest_power = n & (~n + 1);
        // Every page begins at a multiple of its size from a segment's border.
        EXPECT_EQ(segment_bytes % largest_power, 0u);
        EXPECT_TRUE(!std::has_single_bit(n) || largest_power == n);
    }
}

TEST(size_classes, pages_fill_a_slab) {
    EXPECT_EQ(class_pages(0), 131'072u);
    EXPECT_EQ(class_pages(class_count - 1), 4u);
    for (std::uint32_t c = 0; c < class_count; ++c) {
        EXPECT_LE(std::uint64_t{class_pages(c)} * class_bytes(c), segment_bytes);
        EXPECT_GT((std::uint64_t{class_pages(c)} + 1) * class_bytes(c), segment_bytes);
    }
}

TEST(size_classes, masks_of_the_bitmap_words_count_the_pages) {
    for (std::uint32_t c = 0; c < class_count; ++c) {
        std::uint64_t bits = 0;
        for (std::uint32_t w = 0; w < class_words(c); ++w) {
            const std::uint64_t mask = class_word_mask(c, w);
            EXPECT_NE(mask, 0u) << "class " << c << ", word " << w;
            EXPECT_TRUE((mask & (mask + 1)) == 0) << "the pages are the lowest bits";
            EXPECT_TRUE(w + 1 == class_words(c) || mask == ~std::uint64_t{0});
            bits += static_cast<std::uint64_t>(std::popcount(mask));
        }
        EXPECT_EQ(bits, class_pages(c));
        EXPECT_LE(std::uint64_t{class_words(c)}, segment_bytes / 16 / 64);
    }
}

TEST(size_classes, shapes_divide_without_a_division) {
    for (std::uint32_t c = 0; c < class_count; ++c) {
        const class_shape shape = shape_of(c);
        EXPECT_EQ(shape.bytes(), class_bytes(c));
        EXPECT_EQ(shape.pages(), class_pages(c));
        for (std::uint32_t offset = 0; offset < segment_bytes; offset += 13) {
            ASSERT_EQ(shape.page_at(offset), offset / class_bytes(c)) << "class " << c << ", byte " << offset;
        }
        for (std::uint32_t page = 1; page <= class_pages(c); ++page) {
            ASSERT_EQ(shape.page_at(page * class_bytes(c)), page);
            ASSERT_EQ(shape.page_at(page * class_bytes(c) - 1), page - 1);
        }
    }
}

TEST(size_classes, pages_are_found_from_their_offsets_by_one_multiplication) {
    for (std::uint32_t c = 0; c < class_count; ++c) {
        const std::uint32_t bytes = class_bytes(c);
        const std::uint32_t reciprocal = page_reciprocal(c);
        for (std::uint32_t offset = 0; offset < segment_bytes; offset += offset % 16 == 0 ? 3 : 13) {
            const page_at_offset found = find_page_at(offset, reciprocal);
            ASSERT_EQ(found.page, offset / bytes) << "class " << c << ", byte " << offset;
            ASSERT_EQ(found.exact, offset % bytes == 0) << "class " << c << ", byte " << offset;
        }
    }
}

}  // namespace
}  // namespace orchard
