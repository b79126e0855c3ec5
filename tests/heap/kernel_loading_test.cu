// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Whether a heap reports correctly that kernels are loaded before their first launch, and whether `preload` loads
// kernels.

#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/support/heap_fixture.hpp"

namespace orchard::test {
namespace {

using ::testing::HasSubstr;

#if ORCHARD_CUDA_SOURCE
#define ORCHARD_TEST_KERNEL __global__
#else
#define ORCHARD_TEST_KERNEL
#endif

/// No kernel on either device.
void ordinary_function(int*) {}

template <class T>
ORCHARD_TEST_KERNEL void write_value(T* to, T value) {
    *to = value;
}

/// Says whether `flag` was set before the deadline.
ORCHARD_TEST_KERNEL void wait_for_flag(simt::device_word<std::uint32_t>* flag, std::uint32_t* seen) {
    constexpr std::uint64_t longest_ns = 10'000'000'000;
    const std::uint64_t began = simt::clock_ns();
    while (*seen == 0 && simt::clock_ns() - began < longest_ns) {
        *seen = flag->load<simt::order::acquire>();
    }
}

ORCHARD_TEST_KERNEL void set_flag(simt::device_word<std::uint32_t>* flag) { flag->store<simt::order::release>(1); }

class kernel_preload : public heap_contract {};
INSTANTIATE_TEST_SUITE_P(all, kernel_preload, ::testing::Values(heap_cases()[0], heap_cases()[4]), case_name);

TEST_P(kernel_preload, takes_kernels_of_any_signature) {
    const absl::Status loaded = h().preload(wait_for_flag, set_flag, write_value<float>, write_value<std::uint64_t>);
    EXPECT_TRUE(loaded.ok()) << loaded;
    EXPECT_TRUE(h().preload(&set_flag).ok()) << "a second time";
}

TEST_P(kernel_preload, names_the_place_of_what_is_no_kernel) {
    const absl::Status loaded = h().preload(set_flag, ordinary_function, wait_for_flag);
    if (GetParam().device == device_option::emulated) {
        EXPECT_TRUE(loaded.ok()) << "nothing is loaded there: " << loaded;
        return;
    }
    EXPECT_TRUE(absl::IsFailedPrecondition(loaded)) << loaded;
    EXPECT_THAT(std::string(loaded.message()), HasSubstr("kernel 2 of 3"));
    EXPECT_THAT(std::string(loaded.message()), HasSubstr("give a __global__ function"));
    const simt::launch_result after =
        simt::launch(h().executor(), {1, 1}, allocate_each{h().ref(), nullptr, nullptr, 0});
    EXPECT_TRUE(after.ok) << "the error is still there for the next launch: " << after.error;
}

using kernel_loading_DeathTest = heap_contract;
INSTANTIATE_TEST_SUITE_P(all, kernel_loading_DeathTest, ::testing::Values(heap_cases()[0], heap_cases()[4]), case_name);

// Each in a process of its own, because CUDA reads the variable once.
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

#if ORCHARD_CUDA_SOURCE

constexpr int ran_beside = 20;

/// Launches a kernel that waits for the next one, and that one, both loaded; how it ended.
int launch_two_side_by_side(heap& h) {
    struct shared {
        simt::device_word<std::uint32_t> flag;
        std::uint32_t seen;
    };
    shared* memory = nullptr;
    cudaStream_t first = nullptr;
    cudaStream_t second = nullptr;
    if (!h.preload(wait_for_flag, set_flag).ok() || cudaMalloc(&memory, sizeof(shared)) != cudaSuccess ||
        cudaMemset(memory, 0, sizeof(shared)) != cudaSuccess ||
        cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) != cudaSuccess ||
        cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess) {
        return 1;
    }
    wait_for_flag<<<1, 1, 0, first>>>(&memory->flag, &memory->seen);
    set_flag<<<1, 1, 0, second>>>(&memory->flag);
    std::uint32_t seen = 0;
    if (cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess ||
        cudaMemcpy(&seen, &memory->seen, sizeof(seen), cudaMemcpyDeviceToHost) != cudaSuccess) {
        return 2;
    }
    return seen != 0 ? ran_beside : 3;
}

TEST_P(kernel_loading_DeathTest, a_kernel_that_is_preloaded_runs_beside_one_that_waits_for_it) {
    if (h().executor().kind != simt::device_kind::cuda) {
        GTEST_SKIP() << "the emulated device loads nothing";
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_EQ(setenv("CUDA_MODULE_LOADING", "LAZY", 1), 0);
    EXPECT_EXIT(std::exit(launch_two_side_by_side(h())), ::testing::ExitedWithCode(ran_beside), "");
    unsetenv("CUDA_MODULE_LOADING");
}

#endif

}  // namespace
}  // namespace orchard::test
