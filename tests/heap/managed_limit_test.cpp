// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The limit of managed heaps, on the emulated device, where nothing is allocated before the check.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/heap/heap.hpp"

namespace orchard {
namespace {

options managed(std::uint64_t capacity, std::uint64_t limit) {
    options values;
    values.device = device_option::emulated;
    values.backing = backing_option::managed;
    values.capacity = capacity;
    values.managed_limit = limit;
    return values;
}

TEST(managed_limit, refuses_a_heap_above_it_and_names_both_numbers) {
    const auto refused = heap::create(managed(64 << 20, 32 << 20));
    ASSERT_FALSE(refused.ok());
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("67108864"));
    EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("managed_limit, which is 33554432"));
}

TEST(managed_limit, allows_what_is_within_it_and_no_limit_allows_all) {
    EXPECT_TRUE(heap::create(managed(32 << 20, 32 << 20)).ok());
    EXPECT_TRUE(heap::create(managed(64 << 20, 0)).ok());
}

TEST(managed_limit, concerns_managed_heaps_alone) {
    options values = managed(64 << 20, 32 << 20);
    values.backing = backing_option::elastic;
    EXPECT_TRUE(heap::create(values).ok());
}

}  // namespace
}  // namespace orchard
