// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The option that names a policy.

#include <gtest/gtest.h>

#include <string>

#include "runtime/options/options.hpp"

namespace orchard {
namespace {

using device::page_policy;

TEST(PagePolicy, IsTheDefaultUnlessNamed) {
    EXPECT_EQ(options{}.page_policy, page_policy::default_walk);
    EXPECT_EQ(options{}.rw_malloc_unit, 64u);
}

TEST(PagePolicy, EveryNameIsReadAndPrintedTheSame) {
    for (const device::page_policy_name& p : device::page_policy_names) {
        options values;
        ASSERT_TRUE(set(values, "page_policy", p.name).ok()) << p.name;
        EXPECT_EQ(values.page_policy, p.policy);
        EXPECT_TRUE(validate(values).ok());
        EXPECT_NE(to_text(values).find("page_policy = " + std::string(p.name) + "\n"), std::string::npos);
    }
}

TEST(PagePolicy, AnyOtherNameIsRefusedWithTheNamesThereAre) {
    for (const char* name : {"", "RW", "rw ", "rw_bm", "corw-locked", "0"}) {
        options values;
        const absl::Status s = set(values, "page_policy", name);
        EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << name;
        EXPECT_EQ(s.message(), "page_policy: \"" + std::string(name) +
                                   "\" is not a page policy; give default, rw, rw_bm32, rw_bm64, corw, corw_locked or "
                                   "rw_malloc");
        EXPECT_EQ(values, options{});
    }
}

TEST(PagePolicy, NumbersThatNameNoneAreRefused) {
    options values;
    values.page_policy = static_cast<page_policy>(7);
    EXPECT_EQ(
        validate(values).message(),
        "page_policy: 7 is not a page policy; give default, rw, rw_bm32, rw_bm64, corw, corw_locked or rw_malloc");
}

TEST(RwMallocUnit, IsAPowerOfTwo) {
    options values;
    EXPECT_TRUE(set(values, "rw_malloc_unit", "16").ok());
    EXPECT_TRUE(set(values, "rw_malloc_unit", "8KiB").ok());
    EXPECT_EQ(values.rw_malloc_unit, 8192u);
    for (const char* bad : {"8", "16KiB", "48"}) {
        EXPECT_EQ(set(values, "rw_malloc_unit", bad).code(), absl::StatusCode::kOutOfRange) << bad;
    }
}

}  // namespace
}  // namespace orchard
