// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// KMA: the contract of `device_allocator`, what its superblocks are used for, and the faults of the published text.

#include "runtime/published/kma.hpp"

#include <optional>

#include "device/published/kma/max_distribution.cuh"
#include "tests/support/published_rig.cuh"

namespace orchard::test {
namespace {

using device::superblock_shape;

/// One thread allocates blocks until it gets null, or has `most` of them.
struct allocate_rest {
    kma_ref from;
    std::uint64_t bytes;
    block* blocks;
    std::uint64_t most;

    ORCHARD_FN void operator()(simt::thread_position) const {
        for (std::uint64_t i = 0; i < most; ++i) {
            void* const p = from.malloc(bytes);
            if (p == nullptr) {
                return;
            }
            blocks[i] = {as_number(p), bytes};
        }
    }
};

class kma_allocator : public on_each_device {
protected:
    void make(std::uint32_t superblocks, std::uint32_t superblock_bytes = 4096) {
        auto made = kma::create(on_, {std::uint64_t{superblocks} * superblock_bytes, superblock_bytes});
        ASSERT_TRUE(made.ok()) << made.status();
        memory_.emplace(*std::move(made));
        superblocks_ = superblocks;
    }
    [[nodiscard]] published_rig<kma_ref> rig() const { return {memory_->executor(), memory_->ref()}; }
    static std::size_t count_disjoint(const std::vector<block>& blocks) {
        return published_rig<kma_ref>::count_disjoint(blocks);
    }
    /// Returns one number of the usage; the superblocks of all states are all superblocks.
    std::uint32_t used(kma_usage::word kma_usage::*which) const {
        const auto u = memory_->usage();
        EXPECT_TRUE(u.ok()) << u.status();
        const auto get = [&](kma_usage::word kma_usage::*w) { return ((*u).*w).load<simt::order::relaxed>(); };
        EXPECT_EQ(get(&kma_usage::free) + get(&kma_usage::active) + get(&kma_usage::full) + get(&kma_usage::partial),
                  superblocks_);
        return get(which);
    }
    std::vector<block> allocate(std::size_t count, std::uint64_t bytes) {
        return rig().allocate(std::vector<std::uint64_t>(count, bytes));
    }
    /// Allocates all blocks that there are: many threads at first; then one, as each of them may have got null at a
    /// moment in which others were moving a superblock.
    std::vector<block> allocate_all(std::uint64_t bytes, std::uint32_t log_bytes = 12) {
        const std::uint32_t c = superblock_shape::class_of(bytes, log_bytes);
        const std::size_t most = superblocks_ * superblock_shape::of(c, log_bytes).blocks;
        std::vector<block> got = allocate(most + 50, bytes);
        const auto rest = rig().array_of(std::vector<block>(most + 1));
        rig().launch({1, 1}, allocate_rest{memory_->ref(), bytes, rest.data(), rest.size()});
        const std::vector<block> more = rig().to_host(rest);
        got.insert(got.end(), more.begin(), more.end());
        got.erase(std::remove(got.begin(), got.end(), block{}), got.end());
        EXPECT_EQ(count_disjoint(got), got.size());
        return got;
    }

    std::optional<kma> memory_;
    std::uint32_t superblocks_ = 0;
};
INSTANTIATE_TEST_SUITE_P(all, kma_allocator, both_kinds(), kind_name);

TEST_P(kma_allocator, contract) {
    for (const std::uint32_t log_bytes : {10u, 12u, 16u}) {
        make((8u << 20) >> log_bytes, 1u << log_bytes);
        const std::uint64_t largest =
            superblock_shape::of(superblock_shape::classes(log_bytes) - 1, log_bytes).block_bytes;
        for (int round = 0; round < 3; ++round) {
            rig().cycle(mixed_sizes(1000, 300));
            rig().cycle(mixed_sizes(200, largest < 4000 ? largest : 4000));
        }
        EXPECT_EQ(rig().churn(900, 30), 0u);
        rig().expect_mallocs_beside_frees(100, 640);
        rig().expect_nulls({largest + 1, 1 << 20, std::uint64_t{1} << 32, (std::uint64_t{1} << 32) + 16,
                            ~std::uint64_t{0}, ~std::uint64_t{0} - 14});
        EXPECT_EQ(used(&kma_usage::blocks), 0u);
        EXPECT_EQ(used(&kma_usage::full), 0u);
        EXPECT_EQ(used(&kma_usage::active), 0u) << "a superblock without a block in use is nobody's active one";
    }
}

TEST_P(kma_allocator, reuse_needs_no_more_superblocks) {
    make(60);
    for (int round = 0; round < 30; ++round) {
        ASSERT_NO_FATAL_FAILURE(rig().cycle(mixed_sizes(700, 150)));
        EXPECT_EQ(used(&kma_usage::blocks), 0u);
    }
}

// In print the queue of free superblocks always keeps one, which no request ever gets.
TEST_P(kma_allocator, every_superblock_is_given_out) {
    for (const std::uint64_t bytes : {4064u, 2032u, 256u, 16u}) {
        make(9);
        const std::uint32_t each = superblock_shape::of(superblock_shape::class_of(bytes, 12), 12).blocks;
        for (int round = 0; round < 3; ++round) {
            const std::vector<block> got = allocate_all(bytes);
            EXPECT_EQ(got.size(), 9 * each) << bytes << " B";
            EXPECT_EQ(used(&kma_usage::full), 9u);
            EXPECT_EQ(rig().allocate_one(16).address, 0u);
            rig().free(got);
            EXPECT_EQ(used(&kma_usage::blocks), 0u);
        }
    }
}

TEST_P(kma_allocator, blocks_of_full_superblocks_of_any_size_are_whole) {
    for (const std::uint32_t log_bytes : {10u, 13u, 14u, 15u, 16u}) {
        make(3, 1u << log_bytes);
        for (const std::uint64_t bytes : {16u, 32u}) {
            std::vector<block> got = allocate_all(bytes, log_bytes);
            EXPECT_EQ(got.size(),
                      3 * superblock_shape::of(superblock_shape::class_of(bytes, log_bytes), log_bytes).blocks);
            // A search for the blocks that are free now goes past the end of the bitmap.
            rig().free({got.begin(), got.begin() + 40});
            got.erase(got.begin(), got.begin() + 40);
            rig().stamp(got);
            const std::vector<block> again = allocate_all(bytes, log_bytes);
            EXPECT_EQ(again.size(), 40u);
            rig().stamp(again);
            got.insert(got.end(), again.begin(), again.end());
            EXPECT_EQ(count_disjoint(got), got.size());
            rig().stamp(got);
            rig().expect_stamped(got);
            rig().free(got);
            EXPECT_EQ(used(&kma_usage::blocks), 0u) << bytes << " B of " << (1u << log_bytes);
        }
    }
}

// In print a superblock that was full once serves nobody until all of its blocks are free.
TEST_P(kma_allocator, a_block_that_is_freed_in_a_full_superblock_can_be_allocated) {
    make(4);
    std::vector<block> got = allocate_all(256);
    ASSERT_EQ(got.size(), 60u);
    std::vector<block> some;
    for (std::size_t i = 0; i < got.size(); i += 7) {
        some.push_back(got[i]);
        got[i] = {};
    }
    rig().free(some);
    const std::vector<block> again = allocate_all(256);
    EXPECT_EQ(again.size(), some.size());
    got.insert(got.end(), again.begin(), again.end());
    EXPECT_EQ(count_disjoint(got), 60u);
    rig().free(got);
}

TEST_P(kma_allocator, superblocks_change_their_class) {
    make(8);
    for (int round = 0; round < 4; ++round) {
        for (const std::uint64_t bytes : {16u, 4064u, 100u, 1008u, 256u}) {
            const std::uint32_t each = superblock_shape::of(superblock_shape::class_of(bytes, 12), 12).blocks;
            const std::vector<block> got = allocate_all(bytes);
            ASSERT_EQ(got.size(), 8 * each) << bytes << " B: superblocks stay with the class before";
            rig().stamp(got);
            rig().expect_stamped(got);
            // From the last to the first, and each seventh before: superblocks become partial, then empty in a queue.
            std::vector<block> first;
            std::vector<block> rest;
            for (std::size_t i = 0; i < got.size(); ++i) {
                (i % 7 == 0 ? first : rest).push_back(got[got.size() - 1 - i]);
            }
            rig().free(first);
            rig().free(rest);
        }
    }
}

// In print the block of a request of 2048 B is 2044 B long: the next power of two, less what the bitmap takes.
TEST(kma_shape, each_block_is_as_large_as_was_asked_for) {
    for (std::uint32_t log_bytes = 10; log_bytes <= 16; ++log_bytes) {
        const std::uint32_t classes = superblock_shape::classes(log_bytes);
        std::uint32_t before = 0;
        for (std::uint32_t c = 0; c < classes; ++c) {
            const superblock_shape s = superblock_shape::of(c, log_bytes);
            EXPECT_GT(s.block_bytes, before);
            EXPECT_EQ(s.block_bytes % 16, 0u);
            EXPECT_LE(16 + s.blocks * s.block_bytes + 4 * s.bitmap_words, 1u << log_bytes) << "blocks reach the bitmap";
            EXPECT_GE(32 * s.bitmap_words, s.blocks);
            EXPECT_LT(32 * (s.bitmap_words - 1), s.blocks) << "the last word belongs to no block";
            EXPECT_LT(s.blocks, 4096u) << "the word has 12 bits for the number";
            EXPECT_EQ(superblock_shape::class_of(s.block_bytes, log_bytes), c);
            EXPECT_EQ(superblock_shape::class_of(before + 1, log_bytes), c);
            before = s.block_bytes;
        }
        EXPECT_EQ(superblock_shape::class_of(before + 1, log_bytes), superblock_shape::no_class);
        EXPECT_EQ(superblock_shape::class_of(~std::uint64_t{0}, log_bytes), superblock_shape::no_class);
        EXPECT_EQ(superblock_shape::class_of((std::uint64_t{1} << 32) + 1, log_bytes), superblock_shape::no_class);
    }
    EXPECT_EQ(superblock_shape::of(7, 12).block_bytes, 2032u);
    EXPECT_EQ(superblock_shape::of(7, 12).blocks, 2u) << "in print one, as the header leaves less than twice 2048 B";
}

TEST_P(kma_allocator, frees_of_what_is_no_block_change_nothing) {
    make(3);
    const std::vector<block> got = allocate(10, 100);
    const std::uint64_t base = got.front().address / 4096 * 4096;
    std::vector<block> wrong;
    for (const block& b : got) {
        wrong.push_back({b.address + 16, 0});
        wrong.push_back({b.address + 1, 0});
    }
    wrong.push_back({got.front().address + 100 * 128, 0});  // free
    wrong.push_back({base + (std::uint64_t{1} << 40), 0});  // of no superblock
    wrong.push_back({16, 0});
    rig().free(wrong);
    EXPECT_EQ(used(&kma_usage::blocks), 10u);
    rig().free(got);
    rig().free(got);
    EXPECT_EQ(used(&kma_usage::blocks), 0u);
    EXPECT_EQ(used(&kma_usage::free), 3u);
}

TEST_P(kma_allocator, initialise_takes_all_back) {
    make(5);
    for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(allocate_all(1000).size(), 20u);
        ASSERT_TRUE(memory_->initialise().ok());
        EXPECT_EQ(used(&kma_usage::free), 5u);
    }
    kma moved = *std::move(memory_);
    memory_.emplace(std::move(moved));
    rig().cycle(mixed_sizes(20, 500));
}

TEST(kma_settings, wrong_ones_are_named) {
    for (const std::uint32_t bytes : {0u, 512u, 5000u, 131072u}) {
        const absl::Status s = kma::create({}, {1 << 20, bytes}).status();
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(s.message().find("superblock_bytes = " + std::to_string(bytes)), std::string::npos) << s;
    }
    for (const std::uint64_t capacity : {std::uint64_t{4095}, std::uint64_t{1} << 43}) {
        const absl::Status s = kma::create({}, {capacity, 4096}).status();
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_NE(s.message().find("capacity = " + std::to_string(capacity)), std::string::npos) << s;
    }
}

/// Each thread asks for an array of its own length, writes it, and later checks and frees that of its neighbour.
struct use_max_distributed {
    kma_ref from;
    device::max_distributed_array<std::uint32_t>* arrays;
    simt::device_word<std::uint32_t>* wrong;
    bool frees;

    ORCHARD_FN static std::uint32_t length(std::uint64_t i) { return static_cast<std::uint32_t>(i * 7 % 23); }
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (!frees) {
            arrays[i] = device::allocate_max_distributed<std::uint32_t>(from, length(i));
            for (std::uint32_t j = 0; j < arrays[i].count; ++j) {
                arrays[i][j] = static_cast<std::uint32_t>(i * 100 + j);
            }
            return;
        }
        const std::uint64_t other = i ^ 1;
        std::uint32_t errors = arrays[other].count == length(other) ? 0 : 1;
        for (std::uint32_t j = 0; j < arrays[other].count; ++j) {
            errors += arrays[other][j] == other * 100 + j ? 0 : 1;
        }
        wrong->fetch_add<simt::order::relaxed>(errors);
        device::free_max_distributed(from, arrays[other]);
    }
};

TEST_P(kma_allocator, max_distribution_places_elements_of_lanes_side_by_side) {
    make(16);
    constexpr simt::grid shape{2, 64};
    const auto arrays = rig().array_of(std::vector<device::max_distributed_array<std::uint32_t>>(128));
    const auto wrong = rig().array_of(std::vector<simt::device_word<std::uint32_t>>(1));
    rig().launch(shape, use_max_distributed{memory_->ref(), arrays.data(), wrong.data(), false});
    EXPECT_EQ(used(&kma_usage::blocks), 4u) << "one block a warp";
    const auto made = rig().to_host(arrays);
    for (std::size_t i = 1; i < made.size(); ++i) {
        const bool neighbours = i % 32 != 0 && made[i - 1].count != 0 && made[i].count != 0;
        EXPECT_TRUE(!neighbours || made[i].first == made[i - 1].first + 1) << i;
        EXPECT_TRUE(made[i].count == 0 || made[i].stride >= 30);
    }
    rig().launch(shape, use_max_distributed{memory_->ref(), arrays.data(), wrong.data(), true});
    EXPECT_EQ(rig().to_host(wrong).front().load<simt::order::relaxed>(), 0u);
    EXPECT_EQ(used(&kma_usage::blocks), 0u) << "the last lane's free frees the block";
}

}  // namespace
}  // namespace orchard::test
