// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Blocks that are runs of units: their lengths, places, alignment, and frees that are wrong.

#include "tests/page_policy/policy_fixture.hpp"

namespace orchard::test {
namespace {

using ref_type = published_ref<page_policy::rw_malloc>;

/// One thread allocates blocks, one after another, aligned to `alignment`; 0: as malloc.
struct ask {
    ref_type heap;
    const std::uint64_t* bytes;
    std::uint64_t alignment;
    void** blocks;
    std::uint64_t* usable;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint64_t i = 0; at.global_thread() == 0 && i < count; ++i) {
            blocks[i] = alignment == 0 ? heap.malloc(bytes[i]) : heap.aligned_alloc(alignment, bytes[i]);
            usable[i] = heap.usable_size(blocks[i]);
        }
    }
};

/// Thread i allocates `bytes[i]`.
struct ask_together {
    ref_type heap;
    const std::uint64_t* bytes;
    void** blocks;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            blocks[i] = heap.malloc(bytes[i]);
        }
    }
};

class units : public policy_heap {
protected:
    [[nodiscard]] ref_type ref() const { return ref_type(published_heaps::view(*heap_)); }
    [[nodiscard]] char* base() const { return device::heap_view(ref().view()).base; }

    struct answer {
        std::vector<void*> blocks;
        std::vector<std::uint64_t> usable;
    };
    answer allocate(const std::vector<std::uint64_t>& bytes, std::uint64_t alignment = 0) {
        auto wanted = array<std::uint64_t>(bytes.size());
        EXPECT_TRUE(wanted.upload(bytes).ok());
        auto blocks = array<void*>(bytes.size());
        auto usable = array<std::uint64_t>(bytes.size());
        launch(1, ask{ref(), wanted.data(), alignment, blocks.data(), usable.data(), bytes.size()});
        return {to_host(blocks), to_host(usable)};
    }
    void free_these(const std::vector<void*>& blocks) {
        auto them = array<void*>(blocks.size());
        EXPECT_TRUE(them.upload(blocks).ok());
        free(them);
    }
    std::uint64_t refused(void* p) {
        const std::uint64_t before = stats().invalid_frees;
        free_these({p});
        return stats().invalid_frees - before;
    }
};
INSTANTIATE_TEST_SUITE_P(all, units, ::testing::Combine(both_devices(), ::testing::Values(page_policy::rw_malloc)),
                         policy_name);

TEST_P(units, lengths_are_rounded_to_units) {
    for (const std::uint64_t unit : {16u, 64u, 1024u, 8192u}) {
        make(6, unit);
        const std::vector<std::uint64_t> bytes{1,         unit - 1,  unit, unit + 1, 63 * unit,
                                               64 * unit, 33 * unit, 5000, 200'000,  524'288};
        const answer got = allocate(bytes);
        std::uint64_t all = 0;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            EXPECT_EQ(got.usable[i], (bytes[i] + unit - 1) / unit * unit) << unit;
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.blocks[i]) % unit, 0u);
            all += got.usable[i];
        }
        const statistics s = stats();
        EXPECT_EQ(s.pages_in_use, bytes.size());
        EXPECT_EQ(s.allocated_bytes, all);
        free_these(got.blocks);
        EXPECT_EQ(stats().pages_in_use, 0u);
        EXPECT_EQ(stats().invalid_frees, 0u);
    }
}

TEST_P(units, alignment_costs_nothing_that_is_kept) {
    make(8, 64);
    for (std::uint64_t alignment = 1; alignment <= largest_page_bytes; alignment *= 2) {
        const std::vector<std::uint64_t> bytes{1, 100, 64 * 64, 5000};
        const answer got = allocate(bytes, alignment);
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            EXPECT_NE(got.blocks[i], nullptr) << alignment;
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.blocks[i]) % alignment, 0u);
            EXPECT_EQ(got.usable[i], (bytes[i] + 63) / 64 * 64);
        }
        EXPECT_EQ(stats().pages_in_use, bytes.size());
        free_these(got.blocks);
    }
    EXPECT_EQ(stats().invalid_frees, 0u);
}

// Published code finds runs that begin at bit 0 of a word alone, and shifts a word by its width.
TEST_P(units, a_run_is_found_at_any_bit_and_over_any_words) {
    constexpr std::uint64_t unit = 8192;
    make(2, unit);
    const answer all = allocate(std::vector<std::uint64_t>(512, unit));
    ASSERT_EQ(different(all.blocks, unit), 512u);
    ASSERT_EQ(allocate({unit}).blocks.front(), nullptr);
    std::vector<void*> sorted = all.blocks;
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [first, n] : {std::pair{0u, 64u},
                                   {64u, 64u},
                                   {60u, 10u},
                                   {1u, 63u},
                                   {63u, 2u},
                                   {130u, 50u},
                                   {192u, 64u},
                                   {257u, 1u},
                                   {300u, 32u},
                                   {383u, 64u}}) {
        const std::vector<void*> hole(sorted.begin() + first, sorted.begin() + first + n);
        free_these(hole);
        const answer longer = allocate({(n + 1) * unit});
        EXPECT_EQ(longer.blocks.front(), nullptr);
        const answer fits = allocate({n * unit});
        ASSERT_EQ(fits.blocks.front(), sorted[first]) << first << ", " << n;
        free_these(fits.blocks);
        // The units can be allocated one by one again.
        ASSERT_EQ(different(allocate(std::vector<std::uint64_t>(n, unit)).blocks, unit), n);
    }
    EXPECT_EQ(stats().pages_in_use, 512u);
    free_these(all.blocks);
    EXPECT_EQ(stats().invalid_frees, 0u);
}

TEST_P(units, lanes_together_get_blocks_of_their_own_lengths) {
    make(8, 64);
    std::vector<std::uint64_t> bytes(3000);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = i % 7 == 0 ? 3000 : 1 + i * 37 % 500;
    }
    auto wanted = array<std::uint64_t>(bytes.size());
    ASSERT_TRUE(wanted.upload(bytes).ok());
    auto blocks = array<void*>(bytes.size());
    launch(bytes.size(), ask_together{ref(), wanted.data(), blocks.data(), bytes.size()});
    std::vector<std::pair<char*, std::uint64_t>> found;
    const std::vector<void*> got = to_host(blocks);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        found.emplace_back(static_cast<char*>(got[i]), bytes[i]);
    }
    std::sort(found.begin(), found.end());
    for (std::size_t i = 1; i < found.size(); ++i) {
        ASSERT_GE(found[i].first, found[i - 1].first + found[i - 1].second);
    }
    EXPECT_EQ(stats().pages_in_use, bytes.size());
    free(blocks);
    EXPECT_EQ(stats().pages_in_use, 0u);
}

TEST_P(units, frees_of_what_is_no_blocks_beginning) {
    make(4, 64);
    const answer got = allocate({1000, 64, 64});
    auto* const block = static_cast<char*>(got.blocks[0]);
    EXPECT_EQ(refused(block + 1), 1u);
    EXPECT_EQ(refused(block + 64), 1u) << "a unit of the block that is not its first";
    EXPECT_EQ(refused(block + 960), 1u) << "its last unit";
    EXPECT_EQ(refused(base() + 3 * segment_bytes), 1u) << "of no slab";
    EXPECT_EQ(stats().pages_in_use, 3u);
    EXPECT_EQ(refused(block), 0u);
    EXPECT_EQ(refused(block), 1u);
    EXPECT_EQ(stats().pages_in_use, 2u);
    free_these({got.blocks[1], got.blocks[2]});
    EXPECT_EQ(stats().pages_in_use, 0u);
    // A warp's lanes free one block: one of them is right.
    const answer again = allocate({500});
    const std::uint64_t before = stats().invalid_frees;
    free_these(std::vector<void*>(32, again.blocks[0]));
    EXPECT_EQ(stats().invalid_frees - before, 31u);
}

TEST_P(units, bits_that_do_not_agree_are_found) {
    if (std::get<0>(GetParam()) != device_option::emulated) {
        GTEST_SKIP() << "by the host's hand";
    }
    make(2, 64);
    const answer got = allocate({1000});
    const device::published_view& published = published_heaps::view(*heap_);
    const auto unit = static_cast<std::uint64_t>(static_cast<char*>(got.blocks[0]) - base()) / 64;
    const auto flips = [&](simt::device_word<std::uint64_t>* words, std::uint64_t u) {
        const std::uint64_t bit = std::uint64_t{1} << (u % 64);
        const std::uint64_t old = words[u / 64].load<simt::order::relaxed>();
        words[u / 64].store<simt::order::relaxed>(old ^ bit);
        EXPECT_EQ(heap_->validate().code(), absl::StatusCode::kInternal) << u - unit;
        words[u / 64].store<simt::order::relaxed>(old);
    };
    ASSERT_TRUE(heap_->validate().ok());
    flips(published.begins, unit);
    flips(published.begins, unit + 3);
    flips(published.ends, unit + 15);
    flips(published.ends, unit + 3);
    flips(published.ends, unit + 16);
    free_these(got.blocks);
}

}  // namespace
}  // namespace orchard::test
