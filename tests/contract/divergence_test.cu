// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Any lanes, in any divergence: partial masks, branches with different requests, loops of different lengths, lanes that
// leave early, blocks that are not whole warps.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using counter = simt::device_word<std::uint32_t>;

/// Allocates, stamps, checks and frees; counts nulls and contents that changed meanwhile.
struct checked_use {
    heap_ref heap;
    counter* errors;

    ORCHARD_FN void* take(std::uint64_t bytes, std::uint64_t owner) const {
        void* p = heap.malloc(bytes);
        if (p == nullptr) {
            errors->fetch_add<simt::order::relaxed>(1);
        } else {
            stamp_block(p, bytes, owner);
        }
        return p;
    }
    ORCHARD_FN void give(void* p, std::uint64_t bytes, std::uint64_t owner) const {
        if (p != nullptr && !has_stamp(p, bytes, owner)) {
            errors->fetch_add<simt::order::relaxed>(1);
        }
        heap.free(p);
    }
};

/// Only the lanes of a mask allocate; the other lanes have gone on.
struct masked_lanes {
    checked_use use;
    simt::lane_mask mask;
    std::uint64_t bytes;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t owner = at.global_thread();
        if ((mask >> (at.thread % simt::warp_size) & 1) != 0) {
            void* p = use.take(bytes, owner);
            use.give(p, bytes, owner);
        }
    }
};

/// Five branches, each with its own sizes and its own order of malloc and free; one of them leaves.
struct branches {
    checked_use use;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t owner = at.global_thread();
        const std::uint32_t way = at.thread % 5;
        if (way == 4) {
            return;
        }
        void* kept = use.take(48, owner);
        if (way == 0) {
            void* p = use.take(16, owner);
            use.give(p, 16, owner);
        } else if (way == 1) {
            use.give(kept, 48, owner);
            kept = use.take(100, owner);
            use.give(kept, 100, owner);
            return;
        } else if (way == 2) {
            void* p = use.take(1000, owner);
            void* q = use.take(9000, owner);
            use.give(p, 1000, owner);
            use.give(q, 9000, owner);
        } else {
            void* p = use.take(largest_page_bytes + at.thread + 1, owner);
            use.give(p, largest_page_bytes + at.thread + 1, owner);
        }
        use.give(kept, 48, owner);
    }
};

/// Lane i runs i iterations, and frees the block of two iterations before.
struct uneven_loops {
    checked_use use;
    std::uint32_t largest;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t owner = at.global_thread();
        const std::uint32_t rounds = at.thread % 13;
        void* held[2] = {nullptr, nullptr};
        std::uint64_t sizes[2] = {0, 0};
        for (std::uint32_t round = 0; round < rounds; ++round) {
            const std::uint32_t place = round % 2;
            use.give(held[place], sizes[place], owner);
            sizes[place] = 1 + (at.thread * 7 + round * 31) % largest;
            held[place] = use.take(sizes[place], owner);
        }
        use.give(held[0], sizes[0], owner);
        use.give(held[1], sizes[1], owner);
    }
};

class contract_divergence : public heap_contract {
protected:
    template <class Make>
    void run(simt::grid shape, Make make) {
        const auto errors = array<counter>(1);
        launch(shape, make(checked_use{h().ref(), errors.data()}));
        EXPECT_EQ(to_host(errors).front().load<simt::order::relaxed>(), 0u);
        expect_valid("after the launch");
    }
};
INSTANTIATE_TEST_SUITE_P(all, contract_divergence, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(contract_divergence, partial_masks) {
    for (const simt::lane_mask mask : {1u, 0x80000000u, 0x55555555u, 0xffff0000u, 0x00100801u, 0xffffffffu}) {
        for (const std::uint64_t bytes : {std::uint64_t{24}, std::uint64_t{5000}, largest_page_bytes + 1}) {
            // One warp if its chunk alone may be 9 segments.
            const simt::grid shape = bytes <= largest_page_bytes ? simt::grid{3, 64} : simt::grid{1, 32};
            if (bytes > largest_page_bytes && heap_segments() <= 8 && simt::popcount(mask) > 20) {
                continue;  // 32 of them are more than this heap has
            }
            run(shape, [&](checked_use use) { return masked_lanes{use, mask, bytes}; });
        }
    }
}

TEST_P(contract_divergence, branches_ask_for_different_sizes) {
    // The chunks of all warps at once, at 2 or 3 segments a warp, fit a heap of 32 segments.
    const simt::grid shape = heap_segments() >= 32 ? simt::grid{2, 100} : simt::grid{1, 16};
    run(shape, [](checked_use use) { return branches{use}; });
}

TEST_P(contract_divergence, loops_of_different_lengths) {
    // Four classes need four slabs, twenty need twenty.
    const std::uint32_t largest = heap_segments() >= 32 ? 500 : 64;
    run({4, 96}, [&](checked_use use) { return uneven_loops{use, largest}; });
}

TEST_P(contract_divergence, blocks_that_are_not_whole_warps) {
    for (const std::uint32_t threads : {1u, 7u, 33u, 95u, 250u}) {
        run({2, threads}, [](checked_use use) { return masked_lanes{use, 0xffffffffu, 72}; });
    }
}

}  // namespace
}  // namespace orchard::test
