// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A full heap: null occurs only then and has the right reason, and no memory is lost.

#include <numeric>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// One thread of the grid makes one request.
struct one_thread_asks {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint32_t block_index;
    std::uint32_t thread;
    std::uint64_t* answer;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        if (at.block == block_index && at.thread == thread) {
            *answer = as_number(heap.malloc(bytes));
        }
    }
};

class contract_exhaustion : public heap_contract {
protected:
    struct chains {
        device_array<std::uint64_t> heads;
        std::uint64_t blocks = 0;
        simt::grid shape;
    };

    chains fill(std::uint64_t bytes, simt::grid shape, std::uint64_t most = ~std::uint64_t{0}) {
        const std::uint64_t threads = std::uint64_t{shape.blocks} * shape.threads_per_block;
        chains made{array<std::uint64_t>(threads), 0, shape};
        const auto counts = array<std::uint64_t>(threads);
        launch(shape, fill_heap{h().ref(), bytes, most, made.heads.data(), counts.data()});
        const std::vector<std::uint64_t> each = to_host(counts);
        made.blocks = std::accumulate(each.begin(), each.end(), std::uint64_t{0});
        return made;
    }
    void free_chains_of(const chains& made) {
        const auto errors = array<simt::device_word<std::uint32_t>>(1);
        launch(made.shape, free_chains{h().ref(), made.heads.data(), errors.data()});
        EXPECT_EQ(to_host(errors).front().load<simt::order::relaxed>(), 0u) << "two owners of one block";
    }
    std::uint64_t pages_that_fit(std::uint64_t bytes) {
        if (GetParam().runs()) {
            return segment_bytes / ((bytes + 15) / 16 * 16) * heap_segments();
        }
        return std::uint64_t{class_pages(class_of(static_cast<std::uint32_t>(bytes)))} * heap_segments();
    }
    /// Returns how many blocks a heap must hold at least before malloc returns null.
    std::uint64_t at_least(std::uint64_t bytes) {
        if (GetParam().runs() && bytes > 16) {
            // Runs begin anywhere and leave gaps that are too short for one more: n runs of r bytes and n + 1 such gaps
            // are a segment, so that n is at least (segment / r - 1) / 2, rounded up.
            const std::uint64_t run = (bytes + 15) / 16 * 16;
            return (segment_bytes - run + 2 * run - 1) / (2 * run) * heap_segments();
        }
        return pages_that_fit(bytes) * 95 / 100;
    }
    /// Takes every segment, one block a segment, without a request that fails.
    chains take_all_segments() {
        chains all = fill(segments(1), {1, 1}, heap_segments());
        EXPECT_EQ(all.blocks, heap_segments());
        EXPECT_EQ(h().last_failure(), std::nullopt);
        return all;
    }
    void ask_once(std::uint64_t bytes, simt::grid shape, std::uint32_t block_index, std::uint32_t thread,
                  bool expect_null = true) {
        const auto answer = array<std::uint64_t>(1);
        launch(shape, one_thread_asks{h().ref(), bytes, block_index, thread, answer.data()});
        EXPECT_EQ(to_host(answer).front() == 0, expect_null) << bytes << " bytes";
    }
    void expect_failure(failure_reason why, std::uint64_t bytes, std::uint32_t size_class) {
        const std::optional<failure> f = h().last_failure();
        ASSERT_TRUE(f.has_value());
        EXPECT_EQ(name_of(f->reason), name_of(why));
        EXPECT_EQ(f->bytes, bytes);
        EXPECT_EQ(f->size_class, size_class);
    }
};
INSTANTIATE_TEST_SUITE_P(all, contract_exhaustion, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(contract_exhaustion, pages_fill_the_heap_and_fill_it_again) {
    // Small pages only in small heaps, because the time depends on the number of requests.
    const std::uint64_t least = heap_segments() > 32 || GetParam().runs() ? 4000
                                : heap_segments() > 8                     ? 900
                                                                          : scaled(48, 300);
    for (const std::uint64_t bytes : {16u, 48u, 300u, 1000u, 4096u, 10'000u, 65'536u, 300'000u, 524'288u}) {
        if (bytes < least) {
            continue;
        }
        const chains first = fill(bytes, {2, 64});
        EXPECT_LE(first.blocks, pages_that_fit(bytes));
        EXPECT_GE(first.blocks, at_least(bytes)) << bytes << " bytes";
        expect_failure(failure_reason::out_of_memory_device_budget, bytes, class_of(static_cast<std::uint32_t>(bytes)));
        free_chains_of(first);
        EXPECT_EQ(settled_stats().pages_in_use, 0u);
        const chains second = fill(bytes, {2, 64});
        EXPECT_GE(second.blocks, at_least(bytes)) << bytes << " bytes, again";
        free_chains_of(second);
        remake(GetParam().values());
    }
}

TEST_P(contract_exhaustion, one_warp_gets_every_page) {
    const std::uint64_t bytes = 4096;
    for (int round = 0; round < 2; ++round) {
        const chains all = fill(bytes, {1, 32});
        if (GetParam().runs()) {
            EXPECT_GE(all.blocks, at_least(bytes));
        } else {
            EXPECT_EQ(all.blocks, pages_that_fit(bytes));
        }
        EXPECT_EQ(settled_stats().pages_in_use, all.blocks);
        free_chains_of(all);
    }
    expect_empty();
}

TEST_P(contract_exhaustion, chunks_fill_the_heap) {
    for (const std::uint64_t bytes : {largest_page_bytes + 1, segments(1), segments(1) + 1, segments(3)}) {
        // One lane at a time: each block is a chunk of its own. A tail after segments begins a segment of its own;
        // several tails without segments share one.
        const std::uint64_t k = segments_for(bytes);
        const std::uint64_t a_segment = k == 1 ? leaves_per_segment / to_underlying(leaves_for(bytes)) : 1;
        const std::uint64_t fit = heap_segments() / k * a_segment;
        for (int round = 0; round < 2; ++round) {
            const chains all = fill(bytes, {1, 1});
            // The position of a chunk determines how many fit after it, and a refill may lie between two chunks.
            // Therefore all single segments fit, but only nearly all longer runs.
            EXPECT_LE(all.blocks, fit);
            EXPECT_GE(all.blocks, k == 1 ? fit : fit - fit / 10 - 1) << bytes << " bytes, round " << round;
            EXPECT_EQ(settled_stats().live_chunks, all.blocks);
            free_chains_of(all);
        }
        expect_empty();
    }
}

TEST_P(contract_exhaustion, lanes_whose_sum_does_not_fit_are_served_as_far_as_memory_goes) {
    // 32 lanes of 600 KiB are 10 segments. Where no run of 10 is left, some of the lanes still fit.
    const std::uint64_t bytes = 600 << 10;
    const chains all = fill(bytes, {1, 32});
    EXPECT_GE(all.blocks * bytes, segments(heap_segments()) * 70 / 100) << all.blocks << " blocks";
    free_chains_of(all);
    expect_empty();
}

TEST_P(contract_exhaustion, every_class_after_any_other_filled_the_heap) {
    const std::vector<std::uint64_t> sizes = heap_segments() > 32
                                                 ? std::vector<std::uint64_t>{segments(1), 20'000, 500'000}
                                                 : std::vector<std::uint64_t>{segments(1), 4096, 500'000, 20'000};
    for (const std::uint64_t bytes : sizes) {
        const chains all = fill(bytes, {1, 32});
        if (GetParam().runs() && bytes <= largest_page_bytes) {
            EXPECT_GE(all.blocks, at_least(bytes)) << bytes << " bytes";
        } else {
            EXPECT_GE(all.blocks * bytes, segments(heap_segments()) * 70 / 100) << bytes << " bytes";
        }
        free_chains_of(all);
    }
    expect_empty();
}

TEST_P(contract_exhaustion, whole_heap_right_after_a_heap_full_of_small_pages) {
    if (heap_segments() > 8) {
        options small = GetParam().values();
        small.capacity = segments(8);
        remake(small);
    }
    const std::uint64_t bytes = GetParam().runs() ? 2048 : scaled(16, 256);
    const chains all = fill(bytes, {2, 64});
    EXPECT_GE(all.blocks, at_least(bytes));
    free_chains_of(all);
    const block whole = allocate_one(largest_chunk());
    ASSERT_NE(whole.address, 0u);
    free_all({whole});
    expect_empty();
}

TEST_P(contract_exhaustion, a_failure_names_the_lane_and_the_request) {
    const chains all = take_all_segments();
    ask_once(100, {4, 64}, 2, 45);
    std::optional<failure> f = h().last_failure();
    ASSERT_TRUE(f.has_value());
    expect_failure(failure_reason::out_of_memory_device_budget, 100, class_of(100));
    EXPECT_EQ(f->block, 2u);
    EXPECT_EQ(f->thread, 45u);
    EXPECT_EQ(f->count, 1u);
    EXPECT_GT(f->time_ns, 0u);
    // The first failure remains in addition to the newest.
    ask_once(segments(1), {1, 1}, 0, 0);
    EXPECT_EQ(h().last_failure()->count, 2u);
    EXPECT_EQ(h().last_failure()->bytes, segments(1));
    EXPECT_EQ(h().first_failure()->bytes, 100u);
    EXPECT_EQ(settled_stats().failed_allocations, 2u);
    free_chains_of(all);
    ask_once(100, {1, 1}, 0, 0, false);
    EXPECT_EQ(h().last_failure()->count, 2u);
}

TEST_P(contract_exhaustion, a_chunk_that_finds_no_memory) {
    const chains all = take_all_segments();
    ask_once(segments(1), {2, 33}, 1, 32);
    expect_failure(failure_reason::out_of_memory_device_budget, segments(1), chunk_class);
    EXPECT_EQ(h().last_failure()->thread, 32u);
    free_chains_of(all);
    expect_empty();
}

TEST_P(contract_exhaustion, larger_than_the_heap) {
    const std::uint64_t bytes = segments(heap_segments()) + 1;
    ask_once(bytes, {1, 32}, 0, 5);
    expect_failure(failure_reason::too_large, bytes, chunk_class);
    ask_once(~std::uint64_t{0}, {1, 1}, 0, 0);
    ask_once(std::uint64_t{1} << 63, {1, 1}, 0, 0);
    EXPECT_EQ(h().last_failure()->count, 3u);
    ask_once(largest_chunk(), {1, 1}, 0, 0, false);
}

struct free_every_other {
    heap_ref heap;
    std::uint64_t* head;  ///< head of a chain, and afterwards of the remaining chain

    ORCHARD_FN void operator()(simt::thread_position) const {
        // In the order of addresses, so that no two neighbours are freed: odd segments are freed.
        std::uint64_t kept = 0;
        for (auto* p = reinterpret_cast<std::uint64_t*>(*head); p != nullptr;) {
            auto* before = reinterpret_cast<std::uint64_t*>(p[0]);
            if ((as_number(p) - as_number(heap.view().base)) / segment_bytes % 2 == 1) {
                heap.free(p);
            } else {
                p[0] = kept;
                kept = as_number(p);
            }
            p = before;
        }
        *head = kept;
    }
};

TEST_P(contract_exhaustion, enough_segments_but_no_run) {
    const chains all = take_all_segments();
    launch({1, 1}, free_every_other{h().ref(), all.heads.data()});
    EXPECT_EQ(settled_stats().live_chunks, heap_segments() / 2);
    ask_once(segments(2), {1, 1}, 0, 0);
    expect_failure(failure_reason::fragmented, segments(2), chunk_class);
    // Every single segment can still be allocated.
    const chains others = fill(segments(1), {1, 1}, heap_segments() / 2);
    EXPECT_EQ(others.blocks, heap_segments() / 2);
    free_chains_of(others);
    free_chains_of(all);
    ask_once(largest_chunk(), {1, 1}, 0, 0, false);
}

}  // namespace
}  // namespace orchard::test
