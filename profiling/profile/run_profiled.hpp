// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Finds what `orchard profile` needs, and runs a program with the library that records.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace orchard::profiling {

/// The two libraries.
struct recording_libraries {
    std::string recorder;  ///< liborchard_profile.so, which the driver loads into the program
    std::string cupti;     ///< libcupti.so, which the recorder loads
};

/// Returns the paths of both. Errors: FailedPrecondition if this program was built without CUPTI, if one of the
/// libraries is not found, with the places that were searched, or if another injection is set (CUDA_INJECTION64_PATH).
absl::StatusOr<recording_libraries> find_libraries();

/// What is to be run.
struct profiled_run {
    std::vector<std::string> words;  ///< the program, found by PATH, and its arguments
    recording_libraries with;
    std::string folder;                     ///< for the files of records, one for each process
    std::uint64_t limit = 1u << 30;         ///< most bytes of a file
    bool samples = false;                   ///< sample the program counter
    bool output_to_standard_error = false;  ///< the program's standard output
};

/// Runs the program and waits for it; no shell reads the words. Returns its exit code; 128 + n if signal n ended it.
/// Meanwhile SIGINT and SIGQUIT, which a terminal sends to both, are left to the program; SIGTERM and SIGHUP are passed
/// on to it. Errors: NotFound if the program cannot be started.
absl::StatusOr<int> run_profiled(const profiled_run& run);

}  // namespace orchard::profiling
