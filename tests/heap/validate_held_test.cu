// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// heap::validate() compares the blocks that a program holds with the heap's structures.

#include <gmock/gmock.h>

#include "absl/strings/str_format.h"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class heap_validate_held : public heap_contract {
protected:
    void SetUp() override {
        heap_contract::SetUp();
        if (IsSkipped()) {
            return;
        }
        pages_ = allocate({80, 80, 4096}, 3);
        // Two lanes in whole segments and a tail, and two in one portion.
        chunk_ = allocate({segments(1) + 256, segments(2) - 256}, 2);
        portion_ = allocate({600 << 10, 700 << 10}, 2);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(all()));
    }
    void TearDown() override {
        if (!IsSkipped()) {
            free_all(all());
        }
        heap_contract::TearDown();
    }

    [[nodiscard]] std::vector<block> all() const {
        std::vector<block> blocks = pages_;
        blocks.insert(blocks.end(), chunk_.begin(), chunk_.end());
        blocks.insert(blocks.end(), portion_.begin(), portion_.end());
        return blocks;
    }
    /// Returns the result for one block more, or for a changed one.
    absl::Status with(std::uint64_t address, std::uint64_t bytes) {
        const held_block held[] = {{block{address, bytes}.pointer(), bytes}};
        return h().validate(held);
    }
    void expect_fault(std::uint64_t address, std::uint64_t bytes, const char* text) {
        const absl::Status s = with(address, bytes);
        EXPECT_EQ(s.code(), absl::StatusCode::kInternal) << s;
        EXPECT_THAT(std::string(s.message()), HasSubstr(text));
    }

    std::vector<block> pages_;
    std::vector<block> chunk_;
    std::vector<block> portion_;
};
INSTANTIATE_TEST_SUITE_P(all, heap_validate_held, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_validate_held, accepts_the_blocks_that_are_allocated_and_all_that_fits_into_them) {
    for (const block& b : all()) {
        EXPECT_TRUE(with(b.address, b.bytes).ok()) << with(b.address, b.bytes);
        EXPECT_TRUE(with(b.address, 1).ok());
    }
    EXPECT_TRUE(h().validate({}).ok());
}

TEST_P(heap_validate_held, finds_a_block_that_was_freed) {
    for (std::vector<block>* of : {&pages_, &chunk_, &portion_}) {
        const block freed = of->back();
        of->pop_back();
        free_all({freed});
        expect_fault(freed.address, freed.bytes, "is not allocated");
        EXPECT_TRUE(with(of->front().address, of->front().bytes).ok()) << "its neighbour";
    }
}

TEST_P(heap_validate_held, finds_an_address_inside_a_block) {
    expect_fault(pages_[0].address + 16, 16, "no page begins there");
    expect_fault(chunk_[0].address + segments(1), 16, "no chunk has a block there");
    expect_fault(portion_[1].address + 256, 16, "no chunk has a block there");
}

TEST_P(heap_validate_held, finds_a_block_that_is_smaller) {
    expect_fault(pages_[0].address, 81, "has only 80 bytes");
    expect_fault(chunk_[0].address, segments(1) + 257, absl::StrFormat("has only %d bytes", segments(1) + 256).c_str());
}

TEST_P(heap_validate_held, finds_two_blocks_that_share_a_byte) {
    const held_block held[] = {
        {pages_[2].pointer(), 4096}, {chunk_[0].pointer(), 8}, {block{pages_[2].address + 4095, 1}.pointer(), 1}};
    const absl::Status s = h().validate(held);
    EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(s.message()),
                AllOf(HasSubstr("of 1 bytes"), HasSubstr("overlaps the block of 4096 bytes")));
}

TEST_P(heap_validate_held, refuses_what_is_no_block_of_the_heap) {
    const device::heap_view view = h().ref().view();
    const auto base = reinterpret_cast<std::uint64_t>(view.base);
    for (const block& b : {block{base - 16, 16}, block{base + segments(view.segments), 1}, block{pages_[0].address, 0},
                           block{pages_[0].address, ~std::uint64_t{0}}}) {
        const absl::Status s = with(b.address, b.bytes);
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
        EXPECT_THAT(std::string(s.message()), HasSubstr("is no block of this heap"));
    }
}

}  // namespace
}  // namespace orchard::test
