// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The output of the program `orchard explore`, as text and as JSON.

#include <absl/status/statusor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/explore/runner.hpp"
#include "tests/explore/shrink.hpp"

namespace orchard::explore {

/// "3+2,3": blocks by comma, the lanes of their warps by plus.
std::string text_of(const std::vector<simt::explore::block_shape>& blocks);
/// "3+2,3 x 2": blocks and operations.
std::string text_of(const scale& s);
/// Reads the output of `text_of`. At most 64 warps, of 1 to 32 lanes each. Errors: InvalidArgument with the fault and
/// the accepted form.
absl::StatusOr<std::vector<simt::explore::block_shape>> parse_blocks(std::string_view text);

/// The command that repeats a run.
std::string replay_command(const sized_scenario& what, std::uint64_t seed, simt::explore::strategy how);

/// Name, scale and sentence of each scenario.
std::string list_of(const std::vector<scenario>& scenarios);

/// A table with a line for each scenario and one for all, and below it what was found, each with the command that
/// repeats it.
std::string text_of(const plan& p, const std::vector<tally>& all, double seconds);
nlohmann::ordered_json json_of(const plan& p, const std::vector<tally>& all, double seconds);

/// Returns the result of shrinking a violation, without its timeline.
std::string text_of(const sized_scenario& from, const shrunk& s);
std::string text_of(const sized_scenario& what, std::uint32_t surprises, const exhaustive_result& r);

}  // namespace orchard::explore
