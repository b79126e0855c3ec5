// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs another program, without a shell.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace orchard::command_line {

/// Where a program's standard output goes.
enum class child_output {
    standard_output,
    standard_error,  ///< for a command whose own standard output is for one document alone
};

/// Runs the program `words[0]`, found by PATH, with the other words as its arguments, and waits for it. No shell reads
/// the words, so that they may hold any characters but a zero byte.
///
/// Errors: NotFound if the program cannot be started; FailedPrecondition with its exit status or signal if it fails.
absl::Status run_program(const std::vector<std::string>& words, child_output to = child_output::standard_output);

/// Returns the words as one line that a person can paste into a POSIX shell.
std::string as_shell_line(const std::vector<std::string>& words);

}  // namespace orchard::command_line
