// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The results of a run of the walk: phases, checks and the heap's statistics. walk_run.cu fills it in, report.cpp
/// prints it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "examples/report/check.hpp"
#include "runtime/statistics/statistics.hpp"

namespace orchard::examples {

/// Measures the seconds since its construction.
class stopwatch {
public:
    /// Returns the seconds since the construction.
    [[nodiscard]] double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// One phase of the run: its time, and the number of items processed in it. `report.cpp` prints a line for each.
struct phase {
    std::string name;
    double seconds = 0;         ///< wall time, including copies and host work
    double kernel_seconds = 0;  ///< the part from launch to end of kernels; 0 if the phase has no kernel
    std::uint64_t items = 0;
    std::string unit;  ///< name of the items: "insertions"

    /// Returns the items a second of kernel time, or of wall time if no kernel ran; 0 if neither was measured.
    [[nodiscard]] double rate() const {
        const double time = kernel_seconds > 0 ? kernel_seconds : seconds;
        return time > 0 ? static_cast<double>(items) / time : 0;
    }
};

/// The results of a run.
struct walk_result {
    std::vector<phase> phases;
    std::vector<check> checks;
    std::optional<statistics> before_freeing;  ///< after adjacency and walks were complete; none: not in a heap
    std::optional<statistics> at_end;          ///< after everything was freed and trimmed; none: not in a heap
    std::uint32_t max_degree = 0;              ///< greatest degree of the input

    /// Returns whether all required checks passed. A run without any check did not pass.
    [[nodiscard]] bool passed() const { return examples::passed(checks); }
};

}  // namespace orchard::examples
