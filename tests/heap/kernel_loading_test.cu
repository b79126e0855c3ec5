// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Whether a heap says rightly that kernels are loaded before their first launch.

#include <cstdlib>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using kernel_loading_DeathTest = heap_contract;
INSTANTIATE_TEST_SUITE_P(all, kernel_loading_DeathTest, ::testing::Values(heap_cases()[0], heap_cases()[5]), case_name);

// In a process of its own each, as CUDA asks for it once.
TEST_P(kernel_loading_DeathTest, is_what_the_environment_says_where_loading_can_be_lazy) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    constexpr int eager = 10;
    constexpr int lazy = 11;
    const bool may_be_lazy = h().executor().kind == simt::device_kind::cuda;
    for (const auto& [mode, expected] : {std::pair{"EAGER", eager}, std::pair{"LAZY", may_be_lazy ? lazy : eager}}) {
        ASSERT_EQ(setenv("CUDA_MODULE_LOADING", mode, 1), 0);
        EXPECT_EXIT(std::exit(h().loads_kernels_eagerly() ? eager : lazy), ::testing::ExitedWithCode(expected), "")
            << mode;
    }
    unsetenv("CUDA_MODULE_LOADING");
}

}  // namespace
}  // namespace orchard::test
