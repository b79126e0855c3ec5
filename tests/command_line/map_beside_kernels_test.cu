// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Maps that are made while a kernel allocates and frees: they need not be exact, but have the form that readers rely
// on.

#include <atomic>
#include <thread>

#include "runtime/cli/map/read_map.hpp"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Allocates and frees blocks of many sizes.
struct allocate_and_free {
    heap_ref heap;
    std::uint32_t rounds;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        for (std::uint32_t i = 0; i < rounds; ++i) {
            void* const small = heap.malloc(16 + (at.global_thread() * 37 + i * 101) % 4000);
            void* const large = i % 4 == 0 ? heap.malloc((600 << 10) + i % 7 * (300 << 10)) : nullptr;
            heap.free(small);
            heap.free(large);
        }
    }
};

class maps_beside_kernels : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, maps_beside_kernels, ::testing::ValuesIn(heap_cases()), case_name);

TEST_P(maps_beside_kernels, can_be_read) {
    ASSERT_TRUE(h().preload<allocate_and_free>().ok());
    const std::uint32_t rounds = h().executor().kind == simt::device_kind::emulated ? 20 : 5'000;
    simt::launch_result result;
    std::atomic<bool> ended{false};
    {
        const std::jthread kernel([&] {
            result = simt::launch(h().executor(), simt::grid{2, 64}, allocate_and_free{h().ref(), rounds});
            ended = true;
        });
        do {
            const absl::StatusOr<heap_map> map = h().map();
            EXPECT_TRUE(map.ok()) << map.status();
            if (map.ok()) {
                const absl::StatusOr<heap_map> read = command_line::parse_map(to_json(*map));
                EXPECT_TRUE(read.ok()) << read.status();
            }
        } while (!ended && !HasFailure());
    }
    EXPECT_TRUE(result.ok) << result.error;
    const absl::StatusOr<heap_map> at_rest = h().map();
    ASSERT_TRUE(at_rest.ok()) << at_rest.status();
    EXPECT_TRUE(at_rest->is_exact) << difference(*at_rest);
}

}  // namespace
}  // namespace orchard::test
