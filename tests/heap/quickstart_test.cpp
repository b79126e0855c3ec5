// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// `orchard quickstart`, run as the subcommand that it is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "runtime/cli/command_line.hpp"

namespace orchard {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct outcome {
    int code;
    std::string out;
    std::string error;
};

outcome run(std::initializer_list<const char*> arguments) {
    std::vector<const char*> argv{"orchard", "quickstart"};
    argv.insert(argv.end(), arguments);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = command_line::run(static_cast<int>(argv.size()), argv.data());
    std::string out = ::testing::internal::GetCapturedStdout();
    return {code, std::move(out), ::testing::internal::GetCapturedStderr()};
}

TEST(quickstart, sums_what_the_threads_wrote) {
    const outcome o = run({"--device", "emulated", "--capacity", "256MiB"});
    EXPECT_EQ(o.code, 0) << o.error;
    EXPECT_EQ(o.error, "");
    // 1000 lists of each length from 1 to 100: sum over n of n (n + 1) / 2.
    EXPECT_THAT(o.out, StartsWith("device   emulated "));
    EXPECT_THAT(o.out, HasSubstr("\n100000 lists, sum of all items: 171700000\n"));
    EXPECT_THAT(o.out, ContainsRegex("\nallocations +100000"));
    EXPECT_THAT(o.out, ContainsRegex("\nfrees +100000"));
    EXPECT_THAT(o.out, ContainsRegex("\npages_in_use +0"));
}

TEST(quickstart, says_why_where_the_heap_is_too_small_slow) {
    // The lists need 19 slabs of 2 MiB at least: few requests fail.
    const outcome o = run({"--device", "emulated", "--capacity", "36MiB"});
    EXPECT_EQ(o.code, 1);
    EXPECT_EQ(o.out, "");
    EXPECT_THAT(o.error, HasSubstr("out_of_memory_device_budget"));
    EXPECT_THAT(o.error, HasSubstr("raise the option capacity"));
}

}  // namespace
}  // namespace orchard
