// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace orchard::test {

/// The measurement of one call: one line of JSON, which a child process writes and the test reads.
struct row {
    std::string call;
    std::uint64_t block_bytes = 0;
    std::string loading;                    ///< CUDA_MODULE_LOADING of the process
    std::uint64_t calls = 0;                ///< calls made, including the current one
    std::optional<double> longest_call_us;  ///< empty if the call ends the process
    std::optional<double> longest_request_us;
    std::optional<std::uint64_t> nulls;
    std::string reason = "none";  ///< of the newest request that failed
    std::uint64_t begun_mib = 0;  ///< memory whose commit was begun while the call was in progress
    std::string verdict;          ///< `verdict_of`
    std::string error;            ///< the error, or the reason why the row is not available; empty otherwise
};

namespace verdicts {
inline constexpr const char* through = "through";              ///< every request got memory
inline constexpr const char* null = "null";                    ///< some request got null
inline constexpr const char* not_tested = "not tested";        ///< no commit was begun while the call was in progress
inline constexpr const char* not_available = "not available";  ///< this machine cannot make the call
inline constexpr const char* failed = "failed";                ///< `error` has the reason
}  // namespace verdicts

/// Returns the verdict for a measured row, from its error, its nulls and the memory whose commit was begun.
std::string verdict_of(const row& measured);

/// Returns one line of JSON, without its end.
std::string to_json(const row& what);

/// Returns the row that `to_json` wrote. Errors: InvalidArgument, with the text, if it is no such line.
absl::StatusOr<row> row_from_json(const std::string& text);

}  // namespace orchard::test
