// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The number of slabs of a class after long use of the same amount of memory.

#include <map>

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

class heap_slabs : public heap_contract {
protected:
    /// Allocates as many pages as `count` slabs have, by lanes alone, and returns them slab by slab, in the order in
    /// which the slabs were created: at least so many.
    std::vector<std::vector<block>> fill_slabs(std::uint64_t bytes, std::size_t count) {
        const std::size_t pages = class_pages(class_of(static_cast<std::uint32_t>(bytes)));
        std::vector<std::vector<block>> slabs;
        std::map<std::uint64_t, std::size_t> numbers;  // by segment
        for (std::size_t i = 0; i < count * pages; ++i) {
            const block one = allocate_one(bytes);
            const auto [at, fresh] = numbers.try_emplace(one.address / segment_bytes, slabs.size());
            if (fresh) {
                slabs.emplace_back();
            }
            slabs[at->second].push_back(one);
        }
        return slabs;
    }
};
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

// The hint of a lane alone leads to a full slab, or to the place of a retired one, and there is room in another slab.
// The place of the retired one may be filled again.
TEST_P(heap_slabs, of_a_class_do_not_multiply_while_one_has_room) {
    constexpr std::uint64_t bytes = 48 << 10;
    for (const bool retired : {false, true}) {
        const auto slabs = fill_slabs(bytes, 3);
        ASSERT_GE(slabs.size(), 3u);
        // One block stays, so that `trim` does not retire the slab with the room.
        ASSERT_GE(slabs.back().size(), 2u);
        free_all({slabs.back().begin() + 1, slabs.back().end()});
        if (retired) {
            free_all(slabs.front());
            ASSERT_TRUE(h().trim().ok());
        }
        launch({1, 1}, allocate_and_free{h().ref(), bytes, static_cast<std::uint32_t>(scaled(20'000, 5'000)), 1u, 1u});
        EXPECT_LE(settled_stats().slabs_in_use, slabs.size()) << (retired ? "with a hole" : "with a full slab");
        for (std::size_t i = retired ? 1 : 0; i + 1 < slabs.size(); ++i) {
            free_all(slabs[i]);
        }
        free_all({slabs.back().front()});
        ASSERT_TRUE(h().trim().ok());
    }
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
