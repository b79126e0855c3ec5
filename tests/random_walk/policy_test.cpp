// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "device/published/page_policy.cuh"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace orchard::device {
namespace {

TEST(PagePolicy, NamesAreReadBackAndNothingElseIs) {
    for (std::size_t i = 0; i < page_policy_names.size(); ++i) {
        const auto policy = static_cast<page_policy>(i);
        EXPECT_EQ(page_policy_names[i].policy, policy) << "the table is in the order of the values";
        EXPECT_EQ(page_policy_of(name_of(policy)), policy);
        EXPECT_FALSE(page_policy_names[i].help.empty());
        EXPECT_FALSE(page_policy_of(std::string(name_of(policy)) + "x").has_value());
    }
    EXPECT_EQ(name_of(page_policy::corw_locked), "corw_locked");
    EXPECT_FALSE(page_policy_of("").has_value());
    EXPECT_FALSE(page_policy_of("RW").has_value());
}

}  // namespace
}  // namespace orchard::device
