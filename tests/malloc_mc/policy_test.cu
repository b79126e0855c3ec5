// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// Orchard as creation policy of mallocMC. Compiled where ORCHARD_MALLOCMC_DIR names mallocMC (cmake/tests.cmake).

#include <gtest/gtest.h>

#include <alpaka/alpaka.hpp>
// Not mallocMC.hpp, which also includes the headers of other allocators.
#include <mallocMC/alignmentPolicies/Noop.hpp>
#include <mallocMC/alignmentPolicies/Shrink.hpp>
#include <mallocMC/allocator.hpp>
#include <mallocMC/distributionPolicies/Noop.hpp>
#include <mallocMC/oOMPolicies/ReturnNull.hpp>
#include <mallocMC/reservePoolPolicies/AlpakaBuf.hpp>

#include <orchard/neighbours/malloc_mc.cuh>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "absl/strings/match.h"
#include "runtime/machine/machine_info.hpp"

namespace orchard::test {

using acc = alpaka::AccGpuCudaRt<alpaka::DimInt<1>, std::uint32_t>;
#if ORCHARD_MALLOCMC_BY_TAG
using selector = alpaka::TagGpuCudaRt;  // mallocMC's newest sources choose the accelerator by its tag
#else
using selector = acc;
#endif

template <class Pool, class Alignment = mallocMC::AlignmentPolicies::Shrink<>>
using allocator_in = mallocMC::Allocator<selector, malloc_mc::creation_policy, mallocMC::DistributionPolicies::Noop,
                                         mallocMC::OOMPolicies::ReturnNull, Pool, Alignment>;

/// Each thread allocates `count` blocks in a list, checks what it wrote, and frees them.
struct use_blocks {
    template <class Acc, class Handle>
    ALPAKA_FN_ACC void operator()(const Acc& on, Handle handle, std::uint32_t count, std::uint32_t* errors) const {
        const auto thread = alpaka::getIdx<alpaka::Grid, alpaka::Threads>(on)[0];
        void** newest = nullptr;
        for (std::uint32_t n = 0; n < count; ++n) {
            auto* const block = static_cast<void**>(handle.malloc(on, 16 + 8 * (thread % 32) + 8 * n));
            if (block == nullptr) {
                alpaka::atomicAdd(on, errors, 1u);
                break;
            }
            block[0] = newest;
            block[1] = block;
            newest = block;
        }
        while (newest != nullptr) {
            void** const block = newest;
            newest = static_cast<void**>(block[0]);
            if (block[1] != block) {
                alpaka::atomicAdd(on, errors, 1u);
            }
            handle.free(on, block);
        }
    }
};

/// One thread allocates blocks of `bytes` bytes until it gets null, and counts them.
struct exhaust {
    template <class Acc, class Handle>
    ALPAKA_FN_ACC void operator()(const Acc& on, Handle handle, std::uint32_t bytes, std::uint32_t* count) const {
        while (handle.malloc(on, bytes) != nullptr) {
            ++*count;
        }
    }
};

namespace {

template <class Pool>
class malloc_mc_policy : public ::testing::Test {
protected:
    void SetUp() override {
        const auto choice = choose_device(device_option::cuda);
        if (!choice.ok()) {
            GTEST_SKIP() << "needs a GPU: " << choice.status().message();
        }
    }
    /// Runs a kernel of `threads` threads, in whole blocks of 128 if there are more, whose last argument is a number
    /// that begins as 0; returns that number.
    template <class Kernel, class Allocator>
    static std::uint32_t run(std::uint32_t threads, Kernel kernel, Allocator& allocator, std::uint32_t argument) {
        const auto device = alpaka::getDevByIdx(alpaka::Platform<acc>{}, 0);
        const auto host = alpaka::getDevByIdx(alpaka::PlatformCpu{}, 0);
        alpaka::Queue<acc, alpaka::Blocking> queue{device};
        auto number = alpaka::allocBuf<std::uint32_t, std::uint32_t>(device, 1u);
        alpaka::memset(queue, number, 0);
        const alpaka::WorkDivMembers<alpaka::DimInt<1>, std::uint32_t> grid{(threads + 127) / 128,
                                                                            threads < 128 ? threads : 128u, 1u};
        alpaka::exec<acc>(queue, grid, kernel, allocator.getAllocatorHandle(), argument, alpaka::getPtrNative(number));
        auto copy = alpaka::allocBuf<std::uint32_t, std::uint32_t>(host, 1u);
        alpaka::memcpy(queue, copy, number);
        alpaka::wait(queue);
        return *alpaka::getPtrNative(copy);
    }
};

using pools = ::testing::Types<malloc_mc::reserved_pool, malloc_mc::growing_pool>;
class pool_name {
public:
    template <class Pool>
    static std::string GetName(int) {
        return std::is_same_v<Pool, malloc_mc::growing_pool> ? "cuda_growing" : "cuda_reserved";
    }
};
TYPED_TEST_SUITE(malloc_mc_policy, pools, pool_name);

constexpr std::size_t mib = std::size_t{1} << 20;

TYPED_TEST(malloc_mc_policy, kernels_allocate_and_free) {
    auto device = alpaka::getDevByIdx(alpaka::Platform<acc>{}, 0);
    alpaka::Queue<acc, alpaka::Blocking> queue{device};
    allocator_in<TypeParam> allocator(device, queue, 256 * mib);
    EXPECT_EQ(this->run(12'800, use_blocks{}, allocator, 20), 0u);
    heap* const of = malloc_mc::heap_of(allocator);
    ASSERT_NE(of, nullptr);
    EXPECT_EQ(of->stats()->allocations, 256'000u);
    EXPECT_EQ(of->stats()->frees, 256'000u);
    EXPECT_TRUE(of->validate().ok()) << of->validate();
    const auto places = allocator.getHeapLocations();
    ASSERT_EQ(places.size(), 1u);
    EXPECT_EQ(places[0].size, 256 * mib);
    EXPECT_GE(of->view().base, places[0].p);
}

TYPED_TEST(malloc_mc_policy, slots_are_what_can_be_allocated_and_a_failure_has_a_reason) {
    auto device = alpaka::getDevByIdx(alpaka::Platform<acc>{}, 0);
    alpaka::Queue<acc, alpaka::Blocking> queue{device};
    allocator_in<TypeParam> allocator(device, queue, 64 * mib);
    const unsigned slots = allocator.getAvailableSlots(device, queue, 10'000);
    EXPECT_GT(slots, 5'000u);
    EXPECT_EQ(this->run(1, exhaust{}, allocator, 10'000), slots);
    EXPECT_EQ(allocator.getAvailableSlots(device, queue, 10'000), 0u);
    const auto failed = malloc_mc::heap_of(allocator)->last_failure();
    ASSERT_TRUE(failed.has_value());
    EXPECT_EQ(failed->reason, failure_reason::out_of_memory_device_budget);
}

TYPED_TEST(malloc_mc_policy, an_allocator_of_no_bytes_returns_null_until_it_is_resized) {
    auto device = alpaka::getDevByIdx(alpaka::Platform<acc>{}, 0);
    alpaka::Queue<acc, alpaka::Blocking> queue{device};
    allocator_in<TypeParam, mallocMC::AlignmentPolicies::Noop> allocator(device, queue, 0);
    EXPECT_EQ(malloc_mc::heap_of(allocator), nullptr);
    EXPECT_EQ(allocator.getAvailableSlots(device, queue, 64), 0u);
    EXPECT_EQ(this->run(1, exhaust{}, allocator, 64), 0u);
    for (int round = 0; round < 3; ++round) {
        allocator.destructiveResize(device, queue, 64 * mib);
        EXPECT_EQ(this->run(1'280, use_blocks{}, allocator, 5), 0u);
        EXPECT_EQ(malloc_mc::heap_of(allocator)->stats()->allocations, 6'400u);
    }
}

TYPED_TEST(malloc_mc_policy, two_allocators_have_heaps_of_their_own) {
    auto device = alpaka::getDevByIdx(alpaka::Platform<acc>{}, 0);
    alpaka::Queue<acc, alpaka::Blocking> queue{device};
    allocator_in<TypeParam> first(device, queue, 64 * mib);
    allocator_in<TypeParam> second(device, queue, 64 * mib);
    EXPECT_NE(malloc_mc::heap_of(first), malloc_mc::heap_of(second));
    EXPECT_EQ(this->run(100, use_blocks{}, first, 5), 0u);
    EXPECT_EQ(malloc_mc::heap_of(first)->stats()->allocations, 500u);
    EXPECT_EQ(malloc_mc::heap_of(second)->stats()->allocations, 0u);
}

TYPED_TEST(malloc_mc_policy, errors_are_exceptions_with_a_reason) {
    auto device = alpaka::getDevByIdx(alpaka::Platform<acc>{}, 0);
    alpaka::Queue<acc, alpaka::Blocking> queue{device};
    if (std::is_same_v<TypeParam, malloc_mc::reserved_pool>) {
        // Memory without a whole segment. A heap that grows has at least one.
        EXPECT_THROW((allocator_in<TypeParam>(device, queue, 1000)), std::runtime_error);
    }
    using without_pool = allocator_in<mallocMC::ReservePoolPolicies::AlpakaBuf<acc>>;
    try {
        without_pool allocator(device, queue, 64 * mib);
        ADD_FAILURE() << "a pool that is none of Orchard's was taken";
    } catch (const std::logic_error& error) {
        EXPECT_TRUE(absl::StrContains(error.what(), "reserved_pool")) << error.what();
    }
}

TEST(malloc_mc_names, are_in_the_allocators_description) {
    const std::string text = allocator_in<malloc_mc::growing_pool>::info();
    EXPECT_TRUE(absl::StrContains(text, "orchard::malloc_mc::creation_policy")) << text;
    EXPECT_TRUE(absl::StrContains(text, "orchard::malloc_mc::growing_pool")) << text;
}

}  // namespace
}  // namespace orchard::test
