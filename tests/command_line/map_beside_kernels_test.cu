// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Maps that are made while a kernel allocates and frees: they need not be exact, but have the form that readers rely
// on.

#include <thread>

#include "runtime/cli/map/read_map.hpp"
#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

/// Allocates and frees blocks of many sizes until the host says stop.
struct allocate_until_told {
    heap_ref heap;
    const simt::host_word<std::uint32_t>* stop;
    ORCHARD_FN void operator()(simt::thread_position at) const {
        // A bound, so that a failed test ends.
        for (std::uint32_t i = 0; i < 1'000'000 && stop->load<simt::order::relaxed>() == 0; ++i) {
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
    const auto stop = h().executor().kind == simt::device_kind::emulated
                          ? std::make_unique<simt::host_word<std::uint32_t>>(0)
                          : nullptr;
    if (stop == nullptr) {
        GTEST_SKIP() << "the flag is in memory of the host";
    }
    ASSERT_TRUE(h().preload<allocate_until_told>().ok());
    simt::launch_result result;
    {
        const std::jthread kernel([&] {
            result = simt::launch(h().executor(), simt::grid{2, 64}, allocate_until_told{h().ref(), stop.get()});
        });
        for (int i = 0; i < 20; ++i) {
            const absl::StatusOr<heap_map> map = h().map();
            EXPECT_TRUE(map.ok()) << map.status();
            if (map.ok()) {
                const absl::StatusOr<heap_map> read = command_line::parse_map(to_json(*map));
                EXPECT_TRUE(read.ok()) << read.status();
            }
        }
        stop->store<simt::order::relaxed>(1);
    }
    EXPECT_TRUE(result.ok) << result.error;
    const absl::StatusOr<heap_map> at_rest = h().map();
    ASSERT_TRUE(at_rest.ok()) << at_rest.status();
    EXPECT_TRUE(at_rest->is_exact) << difference(*at_rest);
}

}  // namespace
}  // namespace orchard::test
