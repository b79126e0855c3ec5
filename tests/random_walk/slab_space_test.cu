// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The algorithms on a heap's slabs, which are published and retired while lanes walk.

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "device/published/get_page.cuh"
#include "device/published/slab_space.cuh"
#include "tests/simt/run_emulated.hpp"
#include "tests/support/heap_memory.cuh"

namespace orchard {
namespace {

using device::page_policy;
using device::random_walk::no_page;
using device::random_walk::page_number;
using device::random_walk::slab_space;
using device::random_walk::walker;
using rig::heap_memory;
using simt::order;

template <page_policy P>
struct of_policy {
    static constexpr page_policy value = P;
};
using policies = ::testing::Types<of_policy<page_policy::rw>, of_policy<page_policy::rw_bm32>,
                                  of_policy<page_policy::rw_bm64>, of_policy<page_policy::corw>>;

walker<> walker_of(std::uint64_t seed) {
    walker<> w;
    w.random = device::random_walk::random_bits(seed);
    return w;
}

template <class Policy>
class OnSlabs : public ::testing::Test {};
TYPED_TEST_SUITE(OnSlabs, policies, );

TYPED_TEST(OnSlabs, EveryPageOfEverySlabOnceAndThenNone) {
    // 41: 48 KiB, of which 42 fill a slab but for a part, so that its word is not full.
    for (const std::uint32_t c : {24u, 41u, 55u}) {
        heap_memory heap(5);
        for (const std::uint32_t segment : {4u, 1u, 2u}) {
            ASSERT_TRUE(rig::publish(heap.view, 1, c, segment));
        }
        ASSERT_TRUE(device::slab_retire(heap.view, 1, c, 1));  // leaves a hole in the table
        ASSERT_TRUE(rig::publish(heap.view, 1, c + (c == 55 ? -1 : 1), 0));
        const std::uint32_t pages = 2 * class_pages(c);
        std::vector<page_number> got(pages + 40, no_page);
        const auto result = simt::run_emulated(
            simt::grid_for(got.size(), 64),
            [&](simt::thread_position at) {
                const std::uint64_t t = at.global_thread();
                if (t < got.size()) {
                    walker<> w = walker_of(t);
                    got[t] =
                        device::random_walk::get_page<TypeParam::value>(slab_space(heap.view, c), simt::converge(), w);
                }
            },
            3);
        ASSERT_TRUE(result.ok) << result.error;
        const slab_space space(heap.view, c);
        std::set<char*> seen;
        for (const page_number page : got) {
            if (page != no_page) {
                char* const p = space.address(page);
                EXPECT_TRUE(seen.insert(p).second);
                const auto segment = static_cast<std::uint32_t>((p - heap.view.base) >> segment_shift);
                EXPECT_TRUE(segment == 4 || segment == 2) << segment;
                const std::uint64_t d = heap.view.descriptor(segment).template load<order::relaxed>();
                EXPECT_EQ(device::descriptor::page_class(d), c);
                EXPECT_TRUE(device::random_walk::free_page(space, page));
            }
        }
        EXPECT_EQ(seen.size(), pages);
        EXPECT_TRUE(heap.bitmaps_are_clear());
    }
}

TYPED_TEST(OnSlabs, WithoutSlabsThereIsNoPage) {
    heap_memory heap(2);
    walker<> w = walker_of(1);
    EXPECT_EQ(device::random_walk::get_page<TypeParam::value>(slab_space(heap.view, 30), 1, w), no_page);
}

TYPED_TEST(OnSlabs, ThatComeAndGoNoPageHasTwoOwners) {
    constexpr std::uint32_t segments = 6;
    constexpr std::uint32_t classes[] = {class_of(128 << 10), class_of(512 << 10)};
    constexpr std::uint32_t units = 16;  // of 128 KiB, in a segment
    heap_memory heap(segments);
    device::cache_put(heap.view, {segment_index{0}, segments});
    std::vector<simt::device_word<std::uint32_t>> owners(segments * units);
    simt::device_word<std::uint32_t> faults{0};
    simt::device_word<std::uint32_t> claimed{0};
    simt::device_word<std::uint32_t> retired{0};
    const auto mark = [&](const char* p, std::uint32_t c, std::uint32_t from, std::uint32_t to) {
        const auto first = static_cast<std::uint64_t>(p - heap.view.base) / (128 << 10);
        for (std::uint64_t u = first; u < first + class_bytes(c) / (128 << 10); ++u) {
            if (owners[u].template exchange<order::relaxed>(to) != from) {
                faults.fetch_add<order::relaxed>(1);
            }
        }
    };
    const auto result = simt::run_emulated(
        {4, 64},
        [&](simt::thread_position at) {
            const auto tag = static_cast<std::uint32_t>(at.global_thread()) + 1;
            walker<> w = walker_of(tag);
            device::random_walk::random_bits shared((tag - 1) / 32 + 1000);  // alike for all lanes of a warp
            for (int round = 0; round < 100; ++round) {
                const std::uint32_t c = classes[shared.below(2)];
                const std::uint32_t segment = shared.below(segments);
                const std::uint32_t what = shared.below(8);
                // Lanes that meet here may be in different rounds.
                const simt::lane_mask mask = simt::match(simt::converge(), what << 16 | c << 8 | segment);
                segment_run run;
                if (what < 2 && device::cache_take(heap.view, mask, 1, &run)) {
                    if (!rig::publish(heap.view, mask, c, to_underlying(run.first)) && device::is_leader(mask)) {
                        device::cache_put(heap.view, run);
                    }
                } else if (what < 4) {
                    if (device::slab_retire(heap.view, mask, c, segment) && device::is_leader(mask)) {
                        retired.fetch_add<order::relaxed>(1);
                        device::cache_put(heap.view, {segment_index{segment}, 1});
                    }
                } else {
                    const slab_space space(heap.view, c);
                    const page_number page = device::random_walk::get_page<TypeParam::value>(space, mask, w);
                    if (page != no_page) {
                        claimed.fetch_add<order::relaxed>(1);
                        mark(space.address(page), c, 0, tag);
                        simt::pause(0);
                        mark(space.address(page), c, tag, 0);
                        device::random_walk::free_page(space, page);
                    }
                }
            }
        },
        3);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(faults.load<order::relaxed>(), 0u);
    EXPECT_GT(claimed.load<order::relaxed>(), 100u);
    EXPECT_GT(retired.load<order::relaxed>(), 10u);
    EXPECT_TRUE(heap.bitmaps_are_clear());
}

}  // namespace
}  // namespace orchard
