// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The number of slabs of a class after long use of the same amount of memory.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

constexpr std::uint32_t blocks_each = 8;

/// Each thread keeps `blocks_each` blocks and exchanges one of them in each round, in random order.
struct exchange_blocks {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint32_t rounds;
    std::uint64_t* blocks;  ///< `blocks_each` for each thread

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const auto thread = static_cast<std::uint32_t>(at.global_thread());
        std::uint64_t* const mine = blocks + std::uint64_t{thread} * blocks_each;
        for (std::uint32_t i = 0; i < rounds; ++i) {
            const std::uint32_t slot = device::mix(thread * 0x10001u + i) % blocks_each;
            heap.free(reinterpret_cast<void*>(mine[slot]));
            mine[slot] = as_number(heap.malloc(bytes));
        }
    }
};

struct free_blocks {
    heap_ref heap;
    const std::uint64_t* blocks;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint32_t i = 0; i < blocks_each; ++i) {
            heap.free(reinterpret_cast<void*>(blocks[at.global_thread() * blocks_each + i]));
        }
    }
};

class heap_slabs : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, heap_slabs, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(heap_slabs, of_a_class_stay_as_many_as_what_is_live_needs) {
    options roomy = GetParam().values();
    roomy.capacity = segments(256);
    remake(roomy);
    constexpr simt::grid shape{2, 64};
    constexpr std::uint64_t threads = 128;
    // 204 pages to a slab, 128 and 85: the last bitmap words of two of them are short, and mostly full.
    for (const std::uint64_t bytes : {10'240u, 16'000u, 24'000u}) {
        const auto blocks = array<std::uint64_t>(threads * blocks_each);
        launch(shape, exchange_blocks{h().ref(), bytes, 300, blocks.data()});
        const std::uint32_t pages = class_pages(class_of(static_cast<std::uint32_t>(bytes)));
        const std::uint64_t needed = threads * blocks_each / pages + 1;
        // At most several times as many, because groups request slabs concurrently. A regression would create a slab
        // every few rounds.
        EXPECT_LE(settled_stats().slabs_in_use, 6 * needed) << bytes << " bytes, " << pages << " pages to a slab";
        launch(shape, free_blocks{h().ref(), blocks.data()});
        EXPECT_TRUE(h().trim().ok());
    }
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
