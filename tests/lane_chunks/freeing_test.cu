// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Arrays of lanes that are freed wrongly, recycled, or not available.

#include <numeric>

#include "tests/lane_chunks/arrays_fixture.hpp"

namespace orchard::test {
namespace {

using element = cell<1>;
using element_arrays = std::vector<lane_array<element>>;

class lane_chunks_freeing : public arrays_contract {};
INSTANTIATE_TEST_SUITE_P(all, lane_chunks_freeing, ::testing::ValuesIn(array_cases()), case_name);

/// A chunk that is a portion, and one of whole segments and a tail.
const std::uint64_t counts_of_chunks[] = {6'000, 22'000};

/// Calls `usable_size` for the first bytes of arrays, and `free` for these bytes and for one byte further.
struct free_as_blocks {
    heap_ref heap;
    const lane_array<element>* them;
    std::uint64_t count;
    std::uint64_t* sizes;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            sizes[i] = heap.usable_size(them[i].chunk());
            heap.free(them[i].chunk());
            heap.free(static_cast<char*>(them[i].chunk()) + 4 * i);
        }
    }
};

TEST_P(lane_chunks_freeing, a_plain_free_of_an_interleaved_array_is_refused) {
    for (const std::uint64_t n : counts_of_chunks) {
        const std::uint64_t before = invalid_frees();
        std::vector<std::uint64_t> counts(31, n);
        counts[3] = n / 3;
        const auto got = allocate_arrays<element>(counts, layout::interleaved(tile::b4), 32);
        expect_sizes(got, counts);
        stamp_arrays(got);
        const auto them = array_of(got);
        const auto sizes = array<std::uint64_t>(got.size());
        launch(simt::grid_for(got.size(), 32),
               free_as_blocks{heap_ref(h().ref()), them.data(), got.size(), sizes.data()});
        EXPECT_EQ(to_host(sizes), std::vector<std::uint64_t>(got.size(), 0));
        EXPECT_EQ(invalid_frees() - before, 2 * got.size());
        expect_arrays_stamped(got);
        free_arrays(got);
        EXPECT_EQ(invalid_frees() - before, 2 * got.size());
    }
    expect_empty();
}

TEST_P(lane_chunks_freeing, a_second_free_is_counted_and_changes_nothing) {
    for (const std::uint64_t n : counts_of_chunks) {
        const std::uint64_t before = invalid_frees();
        const auto got =
            allocate_arrays<element>(std::vector<std::uint64_t>(32, n), layout::interleaved(tile::b16), 32);
        const element_arrays some(got.begin(), got.begin() + 20);
        free_arrays(some);
        expect_valid("some freed");
        EXPECT_EQ(settled_stats().live_chunks, 1u);
        free_arrays(some);
        EXPECT_EQ(invalid_frees() - before, 20u);
        EXPECT_EQ(settled_stats().live_chunks, 1u);
        free_arrays(element_arrays(got.begin() + 20, got.end()));
        EXPECT_EQ(invalid_frees() - before, 20u);
        EXPECT_EQ(settled_stats().live_chunks, 0u);
        free_arrays(got);
        EXPECT_EQ(invalid_frees() - before, 52u) << "nothing of the chunk is left";
    }
    expect_empty();
}

TEST_P(lane_chunks_freeing, what_is_no_array_of_the_heap_is_counted) {
    const auto got = allocate_arrays<element>(std::vector<std::uint64_t>(5, 9'000), layout::interleaved(tile::b4), 32);
    const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(32, 20'000), 32);
    const std::vector<block> pages = allocate({100, 3000}, 2);
    auto* const chunk = static_cast<char*>(got[0].chunk());
    char outside[16]{};
    const lane_map map = got[0].map();
    const element_arrays wrong = {
        {chunk, lane_map::rows(tile::b4, 32), 30, 1},                          // no such lane
        {chunk + 256, map, 0, 9'000},                                          // within a sub-array
        {chunk + 4, map, 0, 9'000},                                            // no multiple of 256 B
        {outside, map, 0, 1},                                                  // not the heap's
        {blocks[0].pointer(), map, 0, 1},                                      // a block
        {pages[0].pointer(), map, 0, 1},                                       // a page
        {h().ref().view().base + segments(heap_segments()) - 256, map, 1, 1},  // memory without an owner
        lane_array<element>::linear(reinterpret_cast<element*>(chunk), 9),     // as if it were a block
    };
    free_arrays(wrong);
    EXPECT_EQ(invalid_frees(), wrong.size());
    free_arrays(element_arrays(40));  // freeing empty element_arrays does nothing
    EXPECT_EQ(invalid_frees(), wrong.size());
    free_arrays(got);
    free_all(blocks);
    free_all(pages);
    EXPECT_EQ(invalid_frees(), wrong.size());
    expect_empty();
}

TEST_P(lane_chunks_freeing, each_lane_frees_in_a_kernel_of_its_own) {
    std::vector<std::uint64_t> counts(11, 7'000);
    counts[4] = 30'000;
    const auto got = allocate_arrays<element>(counts, layout::interleaved(tile::k4), 32);
    for (std::size_t i = got.size(); i-- != 0;) {
        EXPECT_EQ(settled_stats().live_chunks, 1u);
        free_arrays(element_arrays{got[i]});
    }
    EXPECT_EQ(settled_stats().live_chunks, 0u);
    EXPECT_EQ(invalid_frees(), 0u);
    expect_empty();
}

TEST_P(lane_chunks_freeing, the_same_sizes_again_take_no_host_request) {
    if (GetParam().cached_segments == 0 || GetParam().backing == backing_option::managed) {
        GTEST_SKIP() << "without much in the segment cache every request goes to the host";
    }
    for (const std::uint64_t n : {6'000, 16'384}) {
        const std::vector<std::uint64_t> counts(32, n);
        free_arrays(allocate_arrays<element>(counts, layout::interleaved(tile::b4), 32));
        free_arrays(allocate_arrays<element>(counts, layout::interleaved(tile::b4), 32));
        const std::uint64_t host_requests = settled_stats().host_requests;
        for (int i = 0; i < 10; ++i) {
            const auto got = allocate_arrays<element>(counts, layout::interleaved(tile::b4), 32);
            expect_sizes(got, counts);
            free_arrays(got);
        }
        EXPECT_EQ(settled_stats().host_requests, host_requests);
    }
    expect_empty();
}

TEST_P(lane_chunks_freeing, a_full_heap_gives_an_empty_array_and_a_reason) {
    std::vector<block> blocks;
    for (block b = allocate_one(segments(1)); b.address != 0; b = allocate_one(segments(1))) {
        blocks.push_back(b);
    }
    ASSERT_GE(blocks.size(), heap_segments() / 2);
    const std::uint64_t failed = settled_stats().failed_allocations;
    const std::vector<std::uint64_t> counts(32, segments(1) / sizeof(element) / 8);
    const auto none = allocate_arrays<element>(counts, layout::interleaved(tile::b4), 32);
    for (const lane_array<element>& a : none) {
        EXPECT_TRUE(a.empty());
        EXPECT_EQ(a.chunk(), nullptr);
    }
    EXPECT_EQ(settled_stats().failed_allocations, failed + 32);
    ASSERT_TRUE(h().last_failure().has_value());
    EXPECT_NE(h().last_failure()->reason, failure_reason::none);
    // A segment has room for eight of them: some lanes get theirs.
    free_all({blocks.back()}, {}, 1);
    blocks.pop_back();
    auto few = allocate_arrays<element>(counts, layout::interleaved(tile::b4), 32);
    std::erase_if(few, [](const lane_array<element>& a) { return a.empty(); });
    EXPECT_EQ(few.size(), 8u);
    stamp_arrays(few);
    expect_arrays_stamped(few);
    expect_valid("full");
    free_arrays(few);
    free_all(blocks);
    EXPECT_EQ(invalid_frees(), 0u);
    expect_empty();
}

TEST_P(lane_chunks_freeing, what_is_too_large_or_overflows_fails) {
    const auto alone = [&](std::uint64_t n, layout how) { return allocate_arrays<element>({n, n, 10}, how, 3); };
    for (const layout how : {layout::interleaved(tile::b4), layout::linear(), layout::automatic()}) {
        for (const std::uint64_t n : {~std::uint64_t{0} - 1, std::uint64_t{1} << 62, std::uint64_t{1} << 44}) {
            const auto got = alone(n, how);
            EXPECT_TRUE(got[0].empty() && got[1].empty());
            EXPECT_EQ(got[2].size(), 10u);
            free_arrays(got);
        }
    }
    EXPECT_EQ(h().last_failure()->reason, failure_reason::too_large);
    EXPECT_EQ(settled_stats().failed_allocations, 18u);
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
