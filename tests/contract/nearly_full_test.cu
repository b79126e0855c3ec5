// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A nearly full heap serves requests to the last page, and memory that was full of pages of one size can be filled with
// pages of another size.

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Small heaps, because the time depends on the number of requests.
std::vector<heap_case> small_heaps() {
    const int all_slots = options{}.mailbox_slots;
    constexpr auto walk = device::page_policy::default_walk;
    constexpr auto any = backing_option::automatic;
    return {{"emulated_3_segments", device_option::emulated, 64, all_slots, segments(3)},
            {"emulated_3_segments_no_cache", device_option::emulated, 0, 4, segments(3)},
            {"emulated_24_segments", device_option::emulated, 64, all_slots, segments(24)},
            {"cuda_3_segments", device_option::cuda, 64, all_slots, segments(3)},
            {"cuda_3_segments_no_cache", device_option::cuda, 0, 4, segments(3)},
            {"cuda_24_segments", device_option::cuda, 64, all_slots, segments(24)},
            {"emulated_3_segments_supplied", device_option::emulated, 64, all_slots, segments(3), walk, any,
             lies_in::supplied},
            {"cuda_3_segments_supplied", device_option::cuda, 64, all_slots, segments(3), walk, any, lies_in::supplied},
            {"cuda_3_segments_supplied_on_host", device_option::cuda, 64, all_slots, segments(3), walk, any,
             lies_in::supplied_on_host}};
}

class contract_nearly_full : public heap_contract {
protected:
    std::uint64_t pages_that_fit(std::uint64_t bytes) {
        return std::uint64_t{class_pages(class_of(static_cast<std::uint32_t>(bytes)))} * heap_segments();
    }
    /// Takes every page of that size there is, and frees them.
    std::uint64_t fill_and_free(std::uint64_t bytes, simt::grid shape) {
        const std::uint64_t threads = std::uint64_t{shape.blocks} * shape.threads_per_block;
        const auto heads = array<std::uint64_t>(threads);
        const auto counts = array<std::uint64_t>(threads);
        launch(shape, fill_heap{h().ref(), bytes, ~std::uint64_t{0}, heads.data(), counts.data()});
        const std::vector<std::uint64_t> each = to_host(counts);
        const std::uint64_t blocks = std::accumulate(each.begin(), each.end(), std::uint64_t{0});
        EXPECT_EQ(settled_stats().pages_in_use, blocks);
        const auto errors = array<simt::device_word<std::uint32_t>>(1);
        launch(shape, free_chains{h().ref(), heads.data(), errors.data()});
        EXPECT_EQ(to_host(errors).front().load<simt::order::relaxed>(), 0u) << "two owners of one block";
        EXPECT_EQ(settled_stats().pages_in_use, 0u);
        return blocks;
    }
    /// `n` lanes allocate at once while exactly `n` pages are free. The new pages replace the previous ones in `held`.
    void expect_all_served(std::vector<block>& held, std::uint64_t n, std::uint64_t bytes, std::uint32_t per_block,
                           std::uint32_t seed) {
        std::mt19937 random(seed);
        std::shuffle(held.begin(), held.end(), random);
        const std::vector<block> out(held.end() - static_cast<std::ptrdiff_t>(n), held.end());
        free_all(out, {}, 64);
        const std::vector<block> got = allocate(std::vector<std::uint64_t>(n, bytes), per_block);
        const auto nulls = std::count_if(got.begin(), got.end(), [](const block& b) { return b.address == 0; });
        ASSERT_EQ(nulls, 0) << "of " << n << " lanes that asked for " << bytes << " B, " << per_block << " in a block";
        std::copy(got.begin(), got.end(), held.end() - static_cast<std::ptrdiff_t>(n));
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(held));
        ASSERT_EQ(allocate_one(bytes).address, 0u) << "none was left";
    }
};
INSTANTIATE_TEST_SUITE_P(all, contract_nearly_full, ::testing::ValuesIn(small_heaps()), case_name);

TEST_P(contract_nearly_full, as_many_pages_as_lanes_that_ask) {
    for (const std::uint64_t bytes : {4096u, 20'000u, 65'536u, 300'000u, 524'288u}) {
        const std::uint64_t all = pages_that_fit(bytes);
        std::vector<block> held = allocate(std::vector<std::uint64_t>(all, bytes), 32);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(held));  // every page there is, to as many lanes
        ASSERT_EQ(allocate_one(bytes).address, 0u) << "none was left";
        std::uint32_t seed = 1;
        for (const std::uint64_t n : {1u, 7u, 32u, 64u, 150u, 1000u}) {
            if (n > all || n > scaled(1000, 64)) {
                break;
            }
            for (const std::uint32_t per_block : {32u, 33u, 128u}) {
                ASSERT_NO_FATAL_FAILURE(expect_all_served(held, n, bytes, per_block, seed++));
            }
        }
        free_all(held);
        expect_empty();
    }
}

TEST_P(contract_nearly_full, one_page_class_after_another_to_the_same_utilisation) {
    // From small to large and back.
    using pair = std::pair<std::uint64_t, std::uint64_t>;
    const std::uint64_t least = slowed || heap_segments() > 3 ? 1000 : 16;
    const auto expect_full = [this](std::uint64_t bytes, const char* when) {
        EXPECT_EQ(fill_and_free(bytes, {1, 32}), pages_that_fit(bytes)) << bytes << " B " << when;
    };
    for (const auto& [small, large] : {pair{16, 8192}, pair{64, 524'288}, pair{100, 3000}, pair{2000, 65'536}}) {
        const std::uint64_t first = std::max(small, least);
        remake(GetParam().values());
        expect_full(first, "in a new heap");
        expect_full(large, "after smaller ones");
        expect_full(first, "after larger ones");
        expect_empty();
        remake(GetParam().values());
        expect_full(large, "in a new heap");
    }
    expect_empty();
}

TEST_P(contract_nearly_full, many_warps_fill_it_to_the_last_page_whatever_filled_it_before) {
    // Many warps at once: a thread that gets null ends, the others continue.
    const std::uint64_t least = slowed || heap_segments() > 3 ? 1000 : 16;
    for (const std::uint64_t bytes : {least, std::uint64_t{8192}, std::uint64_t{500'000}, std::uint64_t{8192}, least}) {
        EXPECT_EQ(fill_and_free(bytes, {4, 64}), pages_that_fit(bytes)) << bytes << " B";
    }
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
