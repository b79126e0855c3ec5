// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The positions of a class's slabs, with and without a seed that exchanges and rotates the words of each slab.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
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

/// Goes to `count` positions, from position `first` of the slab at `index` on, each `step` further; stores where they
/// lead.
struct go_to_positions {
    heap_ref heap;
    std::uint32_t page_class;
    std::uint32_t index;
    std::uint32_t first;
    std::uint32_t step;
    std::uint32_t count;
    std::uint32_t* indices;  ///< [count]
    std::uint32_t* pages;    ///< [count]

    ORCHARD_FN void operator()(simt::thread_position) const {
        device::page_search p(heap.view(), 1, 1, page_class, class_bytes(page_class), device::no_index);
        for (std::uint32_t i = 0; i < count; ++i) {
            p.go_to(p.position_of(index) + first + std::uint64_t{i} * step);
            indices[i] = p.index;
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

/// Where positions of a class lead: slab indices, and pages in these slabs.
struct places {
    std::vector<std::uint32_t> indices;
    std::vector<std::uint32_t> pages;
};
places go_to(heap& h, std::uint32_t c, std::uint32_t index, std::uint32_t first, std::uint32_t step,
             std::uint32_t count) {
    places at{std::vector<std::uint32_t>(count), std::vector<std::uint32_t>(count)};
    EXPECT_TRUE(simt::launch(h.executor(), simt::grid{1, 1},
                             go_to_positions{h.ref(), c, index, first, step, count, at.indices.data(), at.pages.data()})
                    .ok);
    return at;
}

TEST(heap_placement, each_position_of_a_slab_is_another_page) {
    for (const hardening kind : {hardening::off, hardening::detect}) {
        for (int seed = 1; seed <= 3; ++seed) {
            heap h = heap_of(kind, seed);
            for (std::uint32_t c = 0; c < class_count; ++c) {
                const std::uint32_t pages = class_pages(c);
                places at = go_to(h, c, 70'000, 0, 1, pages);
                std::ranges::sort(at.pages);
                std::vector<std::uint32_t> all(pages);
                std::iota(all.begin(), all.end(), 0u);
                EXPECT_EQ(at.pages, all) << "class " << c << ", seed " << seed;
                EXPECT_EQ(at.indices, std::vector<std::uint32_t>(pages, 70'000)) << "class " << c << ", seed " << seed;
            }
        }
    }
}

TEST(heap_placement, a_seed_changes_which_words_are_neighbours) {
    const std::uint32_t c = class_of(64);
    const std::uint32_t pages = class_pages(c);
    heap h = heap_of(hardening::detect, 7);
    const places first = go_to(h, c, 0, 0, pages, 64);
    const places second = go_to(h, c, 0, 128, pages, 64);
    std::set<std::uint32_t> distances;
    for (std::size_t i = 0; i < first.pages.size(); ++i) {
        distances.insert((second.pages[i] + pages - first.pages[i]) % pages);
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
