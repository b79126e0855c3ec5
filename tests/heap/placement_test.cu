// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The positions of a class's slabs, with and without a seed that exchanges and rotates the words of each slab.

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "device/heap_ref.cuh"
#include "device/simt/launch.cuh"
#include "device/small/search_steps.cuh"
#include "runtime/heap/heap.hpp"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {

struct allocate_24 {
    heap_ref heap;
    ORCHARD_FN void operator()(simt::thread_position) const { heap.free(heap.malloc(24)); }
};

/// Counts for each page of the slab at `index` how many positions lead to it.
struct count_positions {
    heap_ref heap;
    std::uint32_t page_class;
    std::uint32_t index;
    std::uint32_t* times;  ///< [pages]
    std::uint32_t* elsewhere;

    ORCHARD_FN void operator()(simt::thread_position) const {
        device::page_search p(heap.view(), 1, 1, page_class, class_bytes(page_class), device::no_index);
        for (std::uint32_t i = 0; i < class_pages(page_class); ++i) {
            p.go_to(p.position_of(index) + i);
            if (p.index == index && p.page < class_pages(page_class)) {
                ++times[p.page];
            } else {
                ++*elsewhere;
            }
        }
    }
};

/// Stores the page of position `at_page` of each slab index below `indices`.
struct pages_of_position {
    heap_ref heap;
    std::uint32_t page_class;
    std::uint32_t at_page;
    std::uint32_t indices;
    std::uint32_t* pages;  ///< [indices]

    ORCHARD_FN void operator()(simt::thread_position) const {
        device::page_search p(heap.view(), 1, 1, page_class, class_bytes(page_class), device::no_index);
        for (std::uint32_t i = 0; i < indices; ++i) {
            p.go_to(p.position_of(i) + at_page);
            pages[i] = p.page;
        }
    }
};

namespace {

heap heap_of(hardening kind, int seed) {
    options o;
    o.device = device_option::emulated;
    o.capacity = segments(32);
    o.hardened = kind;
    o.placement_seed = seed;
    return *heap::create(o);
}

TEST(heap_placement, each_position_of_a_slab_is_another_page) {
    for (const hardening kind : {hardening::off, hardening::detect}) {
        for (int seed = 1; seed <= 3; ++seed) {
            heap h = heap_of(kind, seed);
            for (std::uint32_t c = 0; c < class_count; ++c) {
                std::vector<std::uint32_t> times(class_pages(c));
                std::uint32_t elsewhere = 0;
                ASSERT_TRUE(simt::launch(h.executor(), simt::grid{1, 1},
                                         count_positions{h.ref(), c, 70'000, times.data(), &elsewhere})
                                .ok);
                EXPECT_EQ(elsewhere, 0u) << "class " << c << ", seed " << seed;
                EXPECT_EQ(times, std::vector<std::uint32_t>(class_pages(c), 1)) << "class " << c << ", seed " << seed;
            }
        }
    }
}

TEST(heap_placement, a_seed_changes_which_words_are_neighbours) {
    constexpr std::uint32_t indices = 64;
    const std::uint32_t c = class_of(64);
    heap h = heap_of(hardening::detect, 7);
    std::vector<std::uint32_t> first(indices);
    std::vector<std::uint32_t> second(indices);
    ASSERT_TRUE(
        simt::launch(h.executor(), simt::grid{1, 1}, pages_of_position{h.ref(), c, 0, indices, first.data()}).ok);
    ASSERT_TRUE(
        simt::launch(h.executor(), simt::grid{1, 1}, pages_of_position{h.ref(), c, 128, indices, second.data()}).ok);
    std::set<std::uint32_t> distances;
    for (std::uint32_t i = 0; i < indices; ++i) {
        distances.insert((second[i] + class_pages(c) - first[i]) % class_pages(c));
    }
    EXPECT_EQ(distances.size(), 2u) << "two words lie in this order in some slabs, and in the other order in others";
}

TEST(heap_placement, one_reservation_serves_a_lane_alone_under_any_seed) {
    for (int seed = 1; seed <= 24; ++seed) {
        heap h = heap_of(hardening::detect, seed);
        ASSERT_TRUE(simt::launch(h.executor(), simt::grid{1, 1}, allocate_24{h.ref()}).ok);
        const auto s = h.stats();
        ASSERT_TRUE(s.ok()) << s.status();
        EXPECT_EQ(s->allocations, 1u) << "seed " << seed;
        EXPECT_EQ(s->reservations, 1u) << "seed " << seed;
    }
}

}  // namespace
}  // namespace orchard::test
