// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs a subcommand of `orchard` in the test's own process.

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/command_line.hpp"

namespace orchard::test {

/// Runs a subcommand on the emulated device with two workers. Returns its exit code and all that it printed.
inline std::pair<int, std::string> run_emulated(const char* name, const std::vector<std::string>& words) {
    std::vector<const char*> argv{"orchard", name, "--device", "emulated", "--emulated-workers", "2"};
    for (const std::string& word : words) {
        argv.push_back(word.c_str());
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = command_line::run(static_cast<int>(argv.size()), argv.data(), "0123abc");
    std::string text = testing::internal::GetCapturedStdout();
    return {code, text + testing::internal::GetCapturedStderr()};
}

/// Expects of each of these calls that it ends with code 2 and one line.
inline void expect_refused(const char* name, const std::vector<std::vector<std::string>>& calls) {
    for (const auto& words : calls) {
        const auto [code, text] = run_emulated(name, words);
        EXPECT_EQ(code, 2) << text;
        EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    }
}

}  // namespace orchard::test
