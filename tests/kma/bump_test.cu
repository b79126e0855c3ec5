// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The bump allocator: blocks are disjoint, all memory can be given out, and requests that fail leave it usable.

#include "runtime/published/bump.hpp"

#include <optional>

#include "tests/support/published_rig.cuh"

namespace orchard::test {
namespace {

class bump_allocator : public on_each_device {
protected:
    void make(std::uint64_t capacity) {
        auto made = bump::create(on_, {capacity});
        ASSERT_TRUE(made.ok()) << made.status();
        memory_.emplace(*std::move(made));
    }
    [[nodiscard]] published_rig<bump_ref> rig() const { return {memory_->executor(), memory_->ref()}; }
    [[nodiscard]] std::uint64_t used() const {
        const auto bytes = memory_->used();
        EXPECT_TRUE(bytes.ok()) << bytes.status();
        return bytes.ok() ? *bytes : 0;
    }

    std::optional<bump> memory_;
};
INSTANTIATE_TEST_SUITE_P(all, bump_allocator, both_kinds(), kind_name);

TEST_P(bump_allocator, blocks_are_disjoint_and_keep_their_content) {
    make(1 << 20);
    rig().cycle(mixed_sizes(1000, 700));
    std::uint64_t bytes = 0;
    for (const std::uint64_t size : mixed_sizes(1000, 700)) {
        bytes += (size + 15) / 16 * 16;
    }
    EXPECT_EQ(used(), bytes) << "the lanes of a warp share no byte, and none is wasted";
}

TEST_P(bump_allocator, all_memory_is_given_out_and_comes_back_at_once) {
    make(100 * 48 + 8);
    for (int round = 0; round < 3; ++round) {
        const std::vector<block> got = rig().allocate(std::vector<std::uint64_t>(250, 48));
        EXPECT_EQ(published_rig<bump_ref>::count_disjoint(got), 100u);
        EXPECT_EQ(used(), 4800u);
        rig().free(got);
        EXPECT_EQ(rig().allocate_one(16).address, 0u) << "free does nothing";
        ASSERT_TRUE(memory_->initialise().ok());
    }
}

/// One thread takes all memory back between its requests.
struct reset_between {
    bump_ref from;
    simt::device_word<std::uint32_t>* wrong;

    ORCHARD_FN void operator()(simt::thread_position) const {
        const void* const first = from.malloc(1024);
        const void* const second = from.malloc(1);
        from.reset();
        wrong->fetch_add<simt::order::relaxed>(first == nullptr || second != nullptr || from.malloc(1024) != first);
    }
};

TEST_P(bump_allocator, a_kernel_takes_all_memory_back) {
    make(1024);
    const auto wrong = rig().array_of(std::vector<simt::device_word<std::uint32_t>>(1));
    rig().launch({1, 1}, reset_between{memory_->ref(), wrong.data()});
    EXPECT_EQ(rig().to_host(wrong).front().load<simt::order::relaxed>(), 0u);
}

// In print, a request that does not fit moves the counter beyond the end, so that all later ones fail, too, until the
// counter wraps and memory is given out twice.
TEST_P(bump_allocator, requests_that_fail_move_nothing) {
    make(4096);
    rig().expect_nulls({4097, 1 << 20, std::uint64_t{1} << 36, ~std::uint64_t{0}, ~std::uint64_t{0} - 14});
    EXPECT_EQ(used(), 48u);
    EXPECT_NE(rig().allocate_one(4096 - 48).address, 0u);
    EXPECT_EQ(rig().allocate_one(1).address, 0u);
}

TEST_P(bump_allocator, a_request_that_fails_takes_no_other_lane_with_it) {
    make(60 * 16);
    std::vector<std::uint64_t> sizes(32, 16);
    sizes[0] = 40 * 16;   // it fits, but not beside all others
    sizes[9] = 200 * 16;  // it never fits
    const std::vector<block> got = rig().allocate(sizes);
    EXPECT_GE(published_rig<bump_ref>::count_disjoint(got), 21u);
    EXPECT_EQ(got[9].address, 0u);
    std::uint64_t bytes = 0;
    for (const block& b : got) {
        bytes += b.bytes;
    }
    EXPECT_EQ(used(), bytes) << "nothing is lost";
}

TEST_P(bump_allocator, random_divergence) {
    make(8 << 20);
    EXPECT_EQ(rig().churn(300, 20), 0u);
    make(1 << 16);
    EXPECT_GT(rig().churn(300, 20), 0u) << "the memory ends";
}

TEST(bump_settings, a_wrong_capacity_is_named) {
    for (const std::uint64_t capacity : {std::uint64_t{15}, (std::uint64_t{1} << 47) + 1}) {
        const absl::Status s = bump::create({}, {capacity}).status();
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(s.message().find(std::to_string(capacity)), std::string::npos) << s;
    }
}

}  // namespace
}  // namespace orchard::test
