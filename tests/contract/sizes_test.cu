// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Every size: the result of malloc is large enough, aligned as promised, and disjoint from all other blocks.

#include <numeric>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

ORCHARD_CONTRACT_SUITE(contract_sizes);

struct measured {
    std::uint64_t usable;
    std::uint64_t owned;
};

struct measure_each {
    heap_ref heap;
    const block* blocks;
    measured* out;
    std::uint64_t count;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t i = at.global_thread();
        if (i < count) {
            auto* p = static_cast<char*>(blocks[i].pointer());
            out[i] = {heap.usable_size(p), heap.owns(p) && heap.owns(p + blocks[i].bytes - 1) ? 1u : 0u};
        }
    }
};

bool is_power_of_two(std::uint64_t n) { return (n & (n - 1)) == 0; }

/// Returns the alignment that malloc promises for a block of this size.
std::uint64_t promised_alignment(std::uint64_t bytes, bool runs) {
    if (bytes > largest_page_bytes) {
        return 256;
    }
    if (runs) {
        return 16;
    }
    return std::max<std::uint64_t>(16, is_power_of_two(bytes) ? bytes : 16);
}

/// Sizes [first, last], the heap's classes one after another so that a heap of few segments can hold them.
std::vector<std::vector<std::uint64_t>> by_class(std::uint64_t first, std::uint64_t last) {
    std::vector<std::vector<std::uint64_t>> batches(class_count);
    for (std::uint64_t n = first; n <= last; ++n) {
        batches[class_of(static_cast<std::uint32_t>(n))].push_back(n);
    }
    return batches;
}

TEST_P(contract_sizes, every_size_to_2_kib) {
    for (const std::vector<std::uint64_t>& sizes : by_class(1, 2048)) {
        if (sizes.empty()) {
            continue;
        }
        const std::vector<block> blocks = allocate(sizes);
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
        const auto them = array_of(blocks);
        const auto out = array<measured>(blocks.size());
        launch(simt::grid_for(blocks.size(), 64), measure_each{h().ref(), them.data(), out.data(), blocks.size()});
        const std::vector<measured> found = to_host(out);
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            const std::uint64_t n = blocks[i].bytes;
            EXPECT_EQ(blocks[i].address % promised_alignment(n, GetParam().runs()), 0u) << n << " bytes";
            EXPECT_GE(found[i].usable, n);
            EXPECT_LT(found[i].usable - n, std::max<std::uint64_t>(16, n / 4 + 1)) << n << " bytes";
            EXPECT_EQ(found[i].owned, 1u);
        }
        stamp(blocks);
        expect_stamped(blocks);
        free_all(blocks);
    }
    expect_empty();
    EXPECT_EQ(h().last_failure(), std::nullopt);
}

TEST_P(contract_sizes, lanes_of_a_warp_ask_for_sizes_of_many_classes) {
    // A stride that leaves hardly two neighbours in one class; classes up to 23 need 24 slabs.
    const std::uint64_t most = heap_segments() >= 32 ? 2048 : 64;
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < most; ++i) {
        sizes.push_back(i * 977 % most + 1);
    }
    cycle(sizes, 96);
    expect_empty();
}

TEST_P(contract_sizes, around_every_class_border) {
    for (std::uint32_t c = 0; c < class_count; ++c) {
        const std::uint64_t n = class_bytes(c);
        cycle({n - 1, n, n + 1, n, n - 1, n + 1});
        if (HasFatalFailure()) {
            return;
        }
    }
    expect_empty();
}

TEST_P(contract_sizes, powers_of_two_are_aligned_to_themselves) {
    for (std::uint64_t n = 16; n <= largest_page_bytes; n *= 2) {
        const std::vector<block> blocks = allocate(std::vector<std::uint64_t>(n < 65536 ? 40 : 3, n));
        ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
        for (const block& b : blocks) {
            EXPECT_EQ(b.address % promised_alignment(n, GetParam().runs()), 0u) << n;
        }
        free_all(blocks);
    }
    expect_empty();
}

TEST_P(contract_sizes, chunks_up_to_the_whole_heap) {
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t n : {std::uint64_t{600} << 10, std::uint64_t{1} << 20, segments(1), segments(2), segments(5),
                            largest_chunk() / 2, largest_chunk() - segments(1), largest_chunk()}) {
        for (std::uint64_t size : {n - 1, n, n + 1}) {
            if (size <= largest_chunk()) {
                sizes.push_back(size);
            }
        }
    }
    for (const std::uint64_t n : sizes) {
        const block b = allocate_one(n);
        ASSERT_NE(b.address, 0u) << n << " bytes";
        EXPECT_EQ(b.address % 256, 0u);
        stamp({b});
        expect_stamped({b});
        free_all({b});
    }
    expect_empty();
}

TEST_P(contract_sizes, lanes_share_a_chunk) {
    // 11 lanes, unequal, 6.3 MiB together.
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < 11; ++i) {
        sizes.push_back(largest_page_bytes + 1 + i * 10'007);
    }
    const std::vector<block> blocks = allocate(sizes);
    ASSERT_NO_FATAL_FAILURE(expect_disjoint(blocks));
    for (const block& b : blocks) {
        EXPECT_EQ(b.address % 256, 0u);
    }
    const auto them = array_of(blocks);
    const auto out = array<measured>(blocks.size());
    launch(simt::grid_for(blocks.size(), 64), measure_each{h().ref(), them.data(), out.data(), blocks.size()});
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        EXPECT_GE(to_host(out)[i].usable, blocks[i].bytes);
        EXPECT_LT(to_host(out)[i].usable, blocks[i].bytes + 256);
    }
    stamp(blocks);
    expect_stamped(blocks);
    free_all(blocks, {10, 3, 0, 9, 1, 8, 2, 7, 5, 4, 6}, 4);
    expect_empty();
}

TEST_P(contract_sizes, whole_heap_after_everything_else_was_freed) {
    const std::uint64_t n = heap_segments() >= 32 ? 300 : 60;
    std::vector<std::uint64_t> sizes;
    for (std::uint64_t i = 0; i < n; ++i) {
        sizes.push_back(i % 3 == 0 ? 24 : i % 3 == 1 ? 3000 : 40'000);
    }
    cycle(sizes, 128);
    cycle({segments(1) + 5, segments(2)});
    const block whole = allocate_one(largest_chunk());
    ASSERT_NE(whole.address, 0u);
    stamp({whole});
    expect_stamped({whole});
    free_all({whole});
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
