// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cli/command_line.hpp"

namespace orchard::testing_support {

/// What a command did.
struct outcome {
    int code;
    std::string out;
    std::string err;
};

/// Runs `orchard` with these words, in this process.
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

}  // namespace orchard::testing_support
