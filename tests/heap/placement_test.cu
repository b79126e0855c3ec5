// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The search of a lane alone in a slab whose words a seed has exchanged: a third of the positions of a slab of 48 B
/// pages are void, in long sequences, which may be the first ones.

#include <gtest/gtest.h>

#include <cstdint>

#include "device/heap_ref.cuh"
#include "device/simt/launch.cuh"
#include "runtime/heap/heap.hpp"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {

struct allocate_24 {
    heap_ref heap;
    ORCHARD_FN void operator()(simt::thread_position) const { heap.free(heap.malloc(24)); }
};

namespace {

TEST(heap_placement, a_lane_alone_passes_over_void_positions_at_once) {
    for (int seed = 1; seed <= 24; ++seed) {
        options o;
        o.device = device_option::emulated;
        o.capacity = segments(32);
        o.hardened = hardening::detect;
        o.placement_seed = seed;
        auto h = heap::create(o);
        ASSERT_TRUE(h.ok()) << h.status();
        ASSERT_TRUE(simt::launch(h->executor(), simt::grid{1, 1}, allocate_24{h->ref()}).ok);
        const auto s = h->stats();
        ASSERT_TRUE(s.ok()) << s.status();
        EXPECT_EQ(s->allocations, 1u) << "seed " << seed;
        EXPECT_LE(s->reservations, 10u) << "seed " << seed;
    }
}

}  // namespace
}  // namespace orchard::test
