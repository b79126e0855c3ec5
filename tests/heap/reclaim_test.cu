// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// A reclaim finds segments that the summary of the segment cache hides for a moment.

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using simt::order;

/// All segments are in the segment cache, and the first thread asks for all of them in one piece. Before that, it does
/// what a lane that tidies the summary does: it clears the bits. The second warp goes on as that lane some time after
/// the reclaim has begun, and sets them again.
struct ask_beside_a_late_tidier {
    heap_ref heap;
    std::uint64_t bytes;
    std::uint64_t* result;

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const device::heap_view& view = heap.view();
        if (at.thread == 0) {
            view.cache_summary[0].fetch_and<order::acq_rel>(0);
            *result = as_number(heap.malloc(bytes));
        } else if (at.thread == simt::warp_size) {
            const std::uint64_t began = simt::clock_ns();
            constexpr std::uint64_t deadline_ns = 10'000'000'000;
            while (view.state->reclaims.word.load<order::acquire>() == 0 && simt::clock_ns() - began < deadline_ns) {
                simt::pause(1'000);
            }
            constexpr std::uint64_t late_ns = 10'000'000;
            for (const std::uint64_t seen = simt::clock_ns(); simt::clock_ns() - seen < late_ns;) {
                simt::pause(1'000);
            }
            view.cache_summary[0].fetch_or<order::release>(1);
        }
    }
};

class heap_reclaim : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, heap_reclaim, ::testing::Values(heap_cases()[0], heap_cases()[4]), case_name);

TEST_P(heap_reclaim, finds_segments_that_a_late_lane_hides) {
    options o = GetParam().values();
    o.capacity = segments(8);
    o.backing = backing_option::fixed;
    remake(o);
    free_all(allocate(std::vector<std::uint64_t>(8, segments(1)), 1));
    ASSERT_EQ(h().stats()->segments_in_cache + h().stats()->segments_free, 8u);
    const auto result = array<std::uint64_t>(1);
    launch({1, 64}, ask_beside_a_late_tidier{h().ref(), segments(8), result.data()});
    const std::uint64_t p = to_host(result).front();
    EXPECT_NE(p, 0u);
    free_all({{p, segments(8)}});
    expect_empty();
}

}  // namespace
}  // namespace orchard::test
