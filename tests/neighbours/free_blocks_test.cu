// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The number of blocks that a heap has room for, beside the number that it hands out.

#include "runtime/statistics/free_blocks.hpp"

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

class free_blocks_of_a_heap : public ::testing::TestWithParam<std::uint64_t> {
protected:
    void SetUp() override {
        auto made = heap::create({.device = device_option::emulated,
                                  .backing = backing_option::fixed,
                                  .capacity = segments(8),
                                  .cached_segments = 2,
                                  .emulated_workers = 2});
        ASSERT_TRUE(made.ok()) << made.status();
        heap_.emplace(*std::move(made));
    }
    std::uint64_t predicted(std::uint64_t bytes) {
        EXPECT_TRUE(heap_->trim().ok());
        return free_blocks(*heap_->stats(), bytes);
    }
    /// Allocates up to `most` blocks; returns how many it got.
    std::uint64_t take(std::uint64_t bytes, std::uint64_t most) {
        std::uint64_t head = 0;
        std::uint64_t count = 0;
        const auto result =
            simt::launch(heap_->executor(), {1, 1}, fill_heap{heap_->ref(), bytes, most, &head, &count});
        EXPECT_TRUE(result.ok) << result.error;
        return count;
    }

    std::optional<heap> heap_;
};
INSTANTIATE_TEST_SUITE_P(all, free_blocks_of_a_heap,
                         ::testing::Values(64, 100, 4096, 65536, 300'000, largest_page_bytes));

TEST_P(free_blocks_of_a_heap, is_what_an_empty_heap_hands_out) {
    const std::uint64_t bytes = GetParam();
    const std::uint64_t expected = 8 * class_pages(class_of(static_cast<std::uint32_t>(bytes)));
    EXPECT_EQ(predicted(bytes), expected);
    EXPECT_EQ(take(bytes, ~std::uint64_t{0}), expected);
    EXPECT_EQ(predicted(bytes), 0u);
}

TEST_P(free_blocks_of_a_heap, is_what_a_heap_in_use_still_hands_out) {
    const std::uint64_t bytes = GetParam();
    ASSERT_EQ(take(48, 1000), 1000u);
    ASSERT_EQ(take(segments(1) + 1, 1), 1u);
    ASSERT_EQ(take(bytes, 3), 3u);
    const std::uint64_t expected = predicted(bytes);
    EXPECT_GT(expected, 0u);
    EXPECT_EQ(take(bytes, ~std::uint64_t{0}), expected);
    EXPECT_EQ(predicted(bytes), 0u);
}

TEST_P(free_blocks_of_a_heap, of_several_segments_is_an_upper_bound) {
    EXPECT_EQ(predicted(segments(2)), 4u);
    const std::uint64_t taken = take(segments(2), 100);
    EXPECT_GE(taken, 2u);
    EXPECT_EQ(predicted(segments(2)), 4 - taken);
    EXPECT_EQ(predicted(segments(1)), 8 - 2 * taken);
    EXPECT_EQ(predicted(0), 0u);
    EXPECT_EQ(predicted(~std::uint64_t{0}), 0u);
}

}  // namespace
}  // namespace orchard::test
