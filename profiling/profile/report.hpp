// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The tables and the JSON of `orchard profile`.

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "profiling/profile/summary.hpp"

namespace orchard::profiling {

/// What the report says of the run itself.
struct run_facts {
    std::string program;  ///< as it was given; empty: records of an earlier run
    int exit_code = 0;    ///< the program's; 128 + signal, if a signal ended it
    bool samples_asked = false;
    std::size_t rows = 20;  ///< most rows of a table of kernels or functions; the rest is one row
};

/// Returns the tables, with what is known to be missing at the end. Each line ends with a newline.
std::string to_text(const summary& all, const run_facts& run);

/// Returns the members of the document: "program", "exit_code", "processes", "rows" (of kernels), "unified_memory",
/// "owners", "memory_operations", "samples", "loss", "problems".
nlohmann::ordered_json to_json(const summary& all, const run_facts& run);

}  // namespace orchard::profiling
