// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The driver that plays a GPU's: it refuses what a GPU's driver refuses.

#include <gtest/gtest.h>

#include <vector>

#include <cstdint>

#include "tests/backing/elastic_fixture.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {
namespace {

TEST(EmulatedDriver, RefusesWhatAGpusDriverRefuses) {
    const auto driver = make_emulated_driver();
    const std::size_t n = driver->granularity();
    ASSERT_EQ(n, segment_bytes);
    const auto range = driver->reserve(4 * n, 8 * n);
    ASSERT_TRUE(range.ok()) << range.status();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*range) % (8 * n), 0u);
    const auto memory = driver->create(2 * n, memory_tier::device);
    const auto other = driver->create(2 * n, memory_tier::host);
    ASSERT_TRUE(memory.ok() && other.ok());
    const auto refused = [](const absl::Status& status) {
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
        expect_text(status, {"4194304 bytes"});
    };
    refused(driver->map(*range + 3 * n, 2 * n, *memory));
    refused(driver->map(*range - n, 2 * n, *memory));
    refused(driver->set_access(*range, 2 * n));
    ASSERT_TRUE(driver->map(*range, 2 * n, *memory).ok());
    refused(driver->map(*range + n, 2 * n, *other));
    EXPECT_EQ(driver->map(*range + 2 * n, n, *memory).code(), absl::StatusCode::kFailedPrecondition) << "a part";
    ASSERT_TRUE(driver->set_access(*range, 2 * n).ok());
    refused(driver->unmap(*range + n, 2 * n));
    EXPECT_EQ(driver->unmap(*range, n).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(driver->unmap(*range, 2 * n).ok());
    EXPECT_EQ(driver->create(n / 2, memory_tier::device).status().code(), absl::StatusCode::kInvalidArgument);
    const auto amounts = driver->device_memory();
    ASSERT_TRUE(amounts.ok());
    EXPECT_GT(amounts->total, amounts->free);
}

TEST(EmulatedDriver, MemoryKeepsItsContentsAndMayBeMappedTwice) {
    const auto driver = make_emulated_driver();
    const std::size_t n = driver->granularity();
    const auto range = driver->reserve(4 * n, n);
    const auto memory = driver->create(n, memory_tier::device);
    ASSERT_TRUE(range.ok() && memory.ok());
    for (const std::size_t at : {0u, 2u}) {
        ASSERT_TRUE(driver->map(*range + at * n, n, *memory).ok() && driver->set_access(*range + at * n, n).ok());
    }
    write_to(*range + 77);
    EXPECT_EQ((*range)[2 * n + 77], 1);
    ASSERT_TRUE(driver->unmap(*range, n).ok() && driver->unmap(*range + 2 * n, n).ok());
    ASSERT_TRUE(driver->map(*range + n, n, *memory).ok() && driver->set_access(*range + n, n).ok());
    EXPECT_EQ((*range)[n + 77], 1);
}

TEST(EmulatedDriver, AddressesBeyondTheMachinesAreAnErrorThatNamesThem) {
    const auto range = make_emulated_driver()->reserve(std::size_t{1} << 60, segment_bytes);
    EXPECT_EQ(range.status().code(), absl::StatusCode::kResourceExhausted);
    expect_text(range.status(), {"1152921504606846976"});
}

TEST(EmulatedDriverDeathTest, AnAccessBeyondEitherEndOfAReservationIsAFault) {
    const auto driver = make_emulated_driver();
    const std::size_t n = driver->granularity();
    std::vector<char*> ranges;
    for (int i = 0; i < 3; ++i) {
        const auto range = driver->reserve(n, n);
        ASSERT_TRUE(range.ok()) << range.status();
        const auto memory = driver->create(n, memory_tier::device);
        ASSERT_TRUE(memory.ok() && driver->map(*range, n, *memory).ok() && driver->set_access(*range, n).ok());
        ranges.push_back(*range);
    }
    for (char* range : ranges) {
        volatile char* const at = range;
        at[0] = 1;
        at[n - 1] = 1;
        EXPECT_DEATH(*(at - 1) = 1, "");
        EXPECT_DEATH(at[n] = 1, "");
    }
}

}  // namespace
}  // namespace orchard
