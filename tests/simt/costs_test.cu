// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The cost counters of a launch are exact.

#include <gtest/gtest.h>

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "tests/simt/run_emulated.hpp"

namespace orchard::simt {
namespace {

TEST(Costs, AreCountedByKindAndSummedOverBlocks) {
    device_word<std::uint32_t> device{0};
    host_word<std::uint64_t> host{0};
    plain<std::uint32_t> value{};
    value.set(5);  // by a host thread: not counted
    const auto result = run_emulated({3, 64}, [&](thread_position at) {
        const lane_mask here = converge();
        if (rank_in(here) == 0) {
            device.fetch_or<order::acq_rel>(1u << at.block);
            std::uint32_t expected = 99;
            device.compare_exchange<order::relaxed>(expected, 1);
            device.store<order::relaxed>(device.load<order::relaxed>());
            host.store<order::release>(host.load<order::acquire>());
        }
        (void)ballot(here, value.get() == 5);
        pause(0);
    });
    ASSERT_TRUE(result.ok) << result.error;
    constexpr std::uint64_t warps = 6;
    constexpr std::uint64_t threads = 192;
    EXPECT_EQ(result.costs.device_atomics, 2 * warps);
    EXPECT_EQ(result.costs.device_loads, warps + threads);
    EXPECT_EQ(result.costs.device_stores, warps);
    EXPECT_EQ(result.costs.host_words_read, warps);
    EXPECT_EQ(result.costs.host_words_written, warps);
    EXPECT_EQ(result.costs.host_atomics, 0u);
    EXPECT_EQ(result.costs.collectives, warps);
    EXPECT_EQ(result.costs.pauses, threads);
}

TEST(Costs, StartFromZeroWithEachLaunch) {
    device_word<std::uint32_t> device{0};
    const auto kernel = [&](thread_position) { device.fetch_add<order::relaxed>(1); };
    (void)run_emulated({1, 32}, kernel);
    EXPECT_EQ(run_emulated({1, 32}, kernel).costs.device_atomics, 32u);
    EXPECT_EQ(device.load<order::relaxed>(), 64u);
}

}  // namespace
}  // namespace orchard::simt
