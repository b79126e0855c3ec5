// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs `orchard`, or a subcommand of it, in the test's own process.

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cli/command_line.hpp"

namespace orchard::test {

/// What a command did.
struct outcome {
    int code;
    std::string out;
    std::string err;
};

/// Runs `orchard` with these words.
/// @param commit  what the program says that it was built from
inline outcome run_with(const std::vector<std::string>& words, std::string_view commit = "unknown") {
    std::vector<const char*> argv = {"orchard"};
    for (const std::string& word : words) {
        argv.push_back(word.c_str());
    }
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = command_line::run(static_cast<int>(argv.size()), argv.data(), commit);
    std::string out = testing::internal::GetCapturedStdout();
    return {code, std::move(out), testing::internal::GetCapturedStderr()};
}

/// Runs a subcommand on the emulated device with two workers. Returns its exit code and all that it printed.
inline std::pair<int, std::string> run_emulated(const char* name, const std::vector<std::string>& words) {
    std::vector<std::string> all{name, "--device", "emulated", "--emulated-workers", "2"};
    all.insert(all.end(), words.begin(), words.end());
    const outcome done = run_with(all, "0123abc");
    return {done.code, done.out + done.err};
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
