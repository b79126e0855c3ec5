// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Free by any thread and in any order; an address that was not allocated is counted and causes no damage.

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// One thread each frees the same address `times` times, one after another.
struct free_repeatedly {
    heap_ref heap;
    std::uint64_t address;
    std::uint32_t times;

    ORCHARD_FN void operator()(simt::thread_position) const {
        for (std::uint32_t i = 0; i < times; ++i) {
            heap.free(reinterpret_cast<void*>(address));
        }
    }
};

struct pass_on {
    heap_ref heap;
    std::uint64_t bytes;
    simt::device_word<std::uint64_t>* handed;  ///< [threads of the grid], zero
    simt::device_word<std::uint32_t>* nulls;

    static constexpr std::uint64_t nothing = 1;  ///< passed on if malloc returned null, so that no thread waits for
                                                 ///< ever

    /// Hands its block to the thread opposite, and frees the one that it is handed; both in one kernel.
    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        void* p = heap.malloc(bytes);
        handed[at.threads() - 1 - i].store<simt::order::release>(p != nullptr ? as_number(p) : nothing);
        std::uint64_t mine = 0;
        while ((mine = handed[i].load<simt::order::acquire>()) == 0) {
            simt::pause(100);
        }
        if (mine == nothing) {
            nulls->fetch_add<simt::order::relaxed>(1);
        } else {
            heap.free(reinterpret_cast<void*>(mine));
        }
    }
};

class contract_free : public heap_contract {
protected:
    /// `threads` threads of one warp free `address`, `times` times each; returns how many frees were refused.
    std::uint64_t refused(std::uint64_t address, std::uint32_t threads = 1, std::uint32_t times = 1) {
        const std::uint64_t before = settled_stats().invalid_frees;
        launch({1, threads}, free_repeatedly{h().ref(), address, times});
        return settled_stats().invalid_frees - before;
    }
    /// Pages and chunks are still given to one owner only.
    void expect_still_works() {
        std::vector<std::uint64_t> sizes(heap_segments() >= 32 ? 500 : 100, 48);
        sizes.push_back(segments(1) + 1);
        cycle(sizes);
        expect_empty();
    }
};
INSTANTIATE_TEST_SUITE_P(all, contract_free, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(contract_free, by_another_kernel_in_random_order) {
    const std::uint64_t n = scaled(3000, 600);
    std::vector<std::uint64_t> sizes(n);
    for (std::uint64_t i = 0; i < n; ++i) {
        sizes[i] = i % 97 == 0 ? 20'000 : i % 2 == 0 ? 40 : 700;
    }
    std::mt19937 random(7);
    std::vector<std::uint64_t> order(n);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    for (int round = 0; round < 3; ++round) {
        const std::vector<block> blocks = allocate(sizes);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
        stamp(blocks);
        expect_stamped(blocks);
        std::shuffle(order.begin(), order.end(), random);
        free_all(blocks, order, 50);
        EXPECT_EQ(settled_stats().pages_in_use, 0u);
    }
    expect_empty();
    EXPECT_EQ(settled_stats().invalid_frees, 0u);
}

TEST_P(contract_free, by_another_thread_of_the_same_kernel) {
    for (const std::uint64_t bytes : {std::uint64_t{64}, largest_page_bytes + 1}) {
        const auto handed = array<simt::device_word<std::uint64_t>>(bytes > largest_page_bytes ? 8 : 128);
        const auto threads = static_cast<std::uint32_t>(handed.size());
        const auto nulls = array<simt::device_word<std::uint32_t>>(1);
        launch({1, threads}, pass_on{h().ref(), bytes, handed.data(), nulls.data()});
        EXPECT_EQ(to_host(nulls).front().load<simt::order::relaxed>(), 0u);
    }
    expect_empty();
    EXPECT_EQ(settled_stats().invalid_frees, 0u);
}

TEST_P(contract_free, null_is_nothing) {
    EXPECT_EQ(refused(0, 32, 3), 0u);
    EXPECT_EQ(settled_stats().frees, 0u);
}

TEST_P(contract_free, pages_freed_twice) {
    const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(40, 80));
    const block b = blocks[17];
    EXPECT_EQ(refused(b.address, 1, 3), 2u);  // the first is right
    EXPECT_EQ(settled_stats().pages_in_use, 39u);
    // Lanes of one warp at once: one of them is right.
    EXPECT_EQ(refused(blocks[3].address, 2), 1u);
    EXPECT_EQ(refused(blocks[4].address, 32), 31u);
    EXPECT_EQ(settled_stats().pages_in_use, 37u);
    EXPECT_EQ(settled_stats().frees, 3u);
}

TEST_P(contract_free, middle_of_a_page_and_the_tail_of_a_slab) {
    const block b = allocate_one(80);
    EXPECT_EQ(refused(b.address + 1), 1u);
    EXPECT_EQ(refused(b.address + 16), 1u);
    EXPECT_EQ(refused(b.address + 79), 1u);
    const std::uint64_t slab = b.address / segment_bytes * segment_bytes;
    const std::uint64_t after_last = slab + std::uint64_t{class_pages(class_of(80))} * 80;
    ASSERT_LT(after_last, slab + segment_bytes);
    EXPECT_EQ(refused(after_last), 1u);
    EXPECT_EQ(settled_stats().pages_in_use, 1u);
    free_all({b});
    expect_still_works();
}

TEST_P(contract_free, what_was_never_allocated) {
    const device::heap_view view = h().ref().view();
    const auto base = as_number(view.base);
    EXPECT_EQ(refused(base + segments(view.segments - 1)), 1u);  // a segment that was not handed out
    const block b = allocate_one(1000);
    const std::uint64_t pages = class_bytes(class_of(1000));
    const std::uint64_t other = b.address % segment_bytes >= pages ? b.address - pages : b.address + pages;
    EXPECT_EQ(refused(other), 1u);  // a page of a slab that is not allocated
    EXPECT_EQ(settled_stats().pages_in_use, 1u);
    free_all({b});
    EXPECT_EQ(refused(b.address), 1u);
    expect_still_works();
}

TEST_P(contract_free, addresses_outside_the_heap) {
    const device::heap_view view = h().ref().view();
    const auto base = as_number(view.base);
    int on_stack = 0;
    EXPECT_EQ(refused(as_number(&on_stack)), 1u);
    EXPECT_EQ(refused(base - 16), 1u);
    EXPECT_EQ(refused(base + segments(view.segments)), 1u);
    EXPECT_EQ(refused(~std::uint64_t{0}), 1u);
    EXPECT_EQ(refused(8), 1u);
    expect_still_works();
}

TEST_P(contract_free, another_heaps_pointer) {
    options small = GetParam().values();
    small.capacity = segments(8);
    absl::StatusOr<heap> other = make_another(small);
    ASSERT_TRUE(other.ok()) << other.status();
    for (const std::uint64_t bytes : {std::uint64_t{64}, segments(1)}) {
        const block b = allocate_one(bytes);
        const simt::launch_result result =
            simt::launch(other->executor(), {1, 1}, free_repeatedly{other->ref(), b.address, 1});
        ASSERT_TRUE(result.ok) << result.error;
        free_all({b});
    }
    EXPECT_EQ(other->stats()->invalid_frees, 2u);
    EXPECT_TRUE(other->validate().ok());
    EXPECT_EQ(settled_stats().invalid_frees, 0u);
    expect_still_works();
}

TEST_P(contract_free, chunks_freed_wrongly) {
    // Three lanes' blocks in one chunk of 5 segments: the second begins inside a segment, the third at a border.
    const std::vector<block> blocks = allocate({segments(1) + 256, segments(3) - 256, segments(1)}, 3);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
    stamp(blocks);
    EXPECT_EQ(refused(blocks[0].address + 16), 1u);
    EXPECT_EQ(refused(blocks[0].address + 256), 1u);
    EXPECT_EQ(refused(blocks[1].address + segment_bytes), 1u);
    EXPECT_EQ(refused(blocks[2].address + 1), 1u);
    EXPECT_EQ(refused(blocks[1].address, 1, 2), 1u);
    EXPECT_EQ(refused(blocks[1].address), 1u);
    EXPECT_EQ(settled_stats().live_chunks, 1u);
    expect_stamped({blocks[0]});
    EXPECT_EQ(refused(blocks[0].address, 9), 8u);
    EXPECT_EQ(settled_stats().live_chunks, 1u);
    EXPECT_EQ(refused(blocks[2].address, 1, 2), 1u);  // the last block of the chunk, which then no longer exists
    EXPECT_EQ(settled_stats().live_chunks, 0u);
    EXPECT_EQ(refused(blocks[0].address), 1u);
    EXPECT_EQ(settled_stats().frees, 3u);
    expect_still_works();
}

}  // namespace
}  // namespace orchard::test
