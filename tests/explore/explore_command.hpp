// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The subcommand `explore`.

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/command_line.hpp"
#include "runtime/cli/json_output.hpp"
#include "tests/explore/runner.hpp"

namespace orchard::explore {

/// The arguments of the command line. An option that was not given is empty.
struct explore_arguments {
    std::vector<std::string> scenarios;
    std::optional<std::uint64_t> seeds;
    std::optional<std::uint64_t> first;
    std::optional<double> minutes;
    std::optional<std::string> strategy;
    std::optional<std::uint64_t> seed;
    std::optional<std::uint32_t> exhaustive;
    std::optional<std::uint64_t> max_runs;
    std::optional<std::string> blocks;
    std::optional<int> operations;
    unsigned threads = 0;
    bool with_trace = false;
    std::string trace_file;  ///< empty: standard output
    bool shrink = false;
    bool list = false;
    command_line::json_option json;
};

/// Returns the runs to make, if the arguments fit together; otherwise InvalidArgument or NotFound.
absl::StatusOr<plan> plan_of(const explore_arguments& a);

/// Makes the runs that the arguments request. Returns the exit code: 0, or 1 if a violation was found.
absl::StatusOr<int> explore(const explore_arguments& a);

/// The subcommand, for the registry.
command_line::subcommand explore_command();

}  // namespace orchard::explore
