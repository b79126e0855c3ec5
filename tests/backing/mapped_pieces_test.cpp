// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Memory of fixed sizes from pieces that a driver maps: zero, aligned, and complete or not provided.

#include "uvm/memory/mapped_pieces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/backing/elastic_fixture.hpp"

namespace orchard {
namespace {

class MappedPieces : public testing::Test {
protected:
    MappedPieces() { script->maps_pieces = true; }
    char* take(memory_tier tier, std::size_t bytes) {
        const auto p = tier == memory_tier::device ? driver->allocate(bytes) : driver->allocate_host_visible(bytes);
        EXPECT_TRUE(p.ok()) << p.status();
        return p.ok() ? static_cast<char*>(*p) : nullptr;
    }

    std::shared_ptr<driver_script> script = std::make_shared<driver_script>();
    std::unique_ptr<memory_driver> driver = std::make_unique<fake_driver>(script);
};

TEST_F(MappedPieces, ShareAPieceWhereThereIsRoom) {
    for (const auto& [tier, alignment] :
         {std::pair{memory_tier::device, std::size_t{256}}, std::pair{memory_tier::host, std::size_t{4096}}}) {
        char* const first = take(tier, 1);
        char* const second = take(tier, alignment + 1);
        char* const third = take(tier, 0);
        EXPECT_EQ(second, first + alignment);
        EXPECT_EQ(third, second + 2 * alignment);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % alignment, 0u);
        EXPECT_TRUE(all_zero(first, segment_bytes));
        EXPECT_NE(take(tier, segment_bytes), third + alignment) << "a piece of its own";
        EXPECT_EQ(take(tier, 1), third + alignment) << "what is left of the first is not lost";
    }
    EXPECT_EQ(script->live(), (driver_live{4, 4, 4, 2 * segment_bytes, 2 * segment_bytes}));
    EXPECT_EQ(script->count(driver_call::prepare), 4u);
    driver.reset();
    EXPECT_EQ(script->live(), driver_live{});
}

TEST_F(MappedPieces, AFailureLeavesNothing) {
    const absl::Status words = absl::InternalError("the driver's own words");
    for (const memory_tier tier : {memory_tier::device, memory_tier::host}) {
        for (const driver_call call : {driver_call::reserve, driver_call::create, driver_call::map,
                                       driver_call::set_access, driver_call::prepare}) {
            script->fail(call, words);
            const auto p = tier == memory_tier::device ? driver->allocate(1) : driver->allocate_host_visible(1);
            EXPECT_EQ(p.status(), words) << call;
            EXPECT_EQ(script->live(), driver_live{}) << call;
        }
    }
    write_to(take(memory_tier::device, 1));
}

// A clearing that waits for a kernel may run after its deadline.
TEST_F(MappedPieces, WhatMayStillBeClearedStaysMappedAndIsNotHandedOut) {
    script->busy = true;
    script->fail(driver_call::prepare, absl::DeadlineExceededError("a kernel is running"));
    EXPECT_EQ(driver->allocate(1).status(), absl::DeadlineExceededError("a kernel is running"));
    EXPECT_EQ(script->live(), (driver_live{1, 1, 1, segment_bytes, 0}));
    EXPECT_EQ(script->count(driver_call::unmap), 0u);
    script->busy = false;
    EXPECT_TRUE(all_zero(take(memory_tier::device, 1), 1));
    EXPECT_EQ(script->live(), (driver_live{2, 2, 2, 2 * segment_bytes, 0}));
    driver.reset();
    EXPECT_EQ(script->live(), driver_live{});
}

}  // namespace
}  // namespace orchard
