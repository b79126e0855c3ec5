// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// `orchard layouts`: runs the examples of arrays of lanes, which check their own results.

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/layout/examples.hpp"
#include "runtime/cli/command_line.hpp"
#include "runtime/cli/options_cli.hpp"

namespace orchard::examples {
namespace {

/// An example: the name of its file and its function.
struct example {
    const char* name;
    absl::StatusOr<statistics> (*run)(const options&);
};
constexpr example examples[] = {{"per_thread_arrays", per_thread_arrays},
                                {"lane_stack", lane_stack},
                                {"hand_over", hand_over},
                                {"row_matrix", row_matrix}};

/// Runs the examples in order, each with a heap of its own, and prints a line for each. Stops at the first that fails;
/// errors have its name.
absl::Status layouts(const options& values) {
    for (const example& e : examples) {
        const absl::StatusOr<statistics> counted = e.run(values);
        if (!counted.ok()) {
            return absl::Status(counted.status().code(), absl::StrCat(e.name, ": ", counted.status().message()));
        }
        std::cout << absl::StrFormat("passed  %-18s %d arrays and blocks, %d warp chunks\n", e.name,
                                     counted->allocations, counted->chunk_allocations);
    }
    return absl::OkStatus();
}

/// Returns the subcommand; its flags are the options of the heaps.
command_line::subcommand layouts_command() {
    const auto values = std::make_shared<options>();
    return {"layouts", "Run the examples of arrays of lanes: tables, stacks, pointers that are handed over, a matrix",
            "Examples", [values](CLI::App& app) { add_to(app, *values); },
            [values] { return command_line::exit_code(layouts(*values)); }};
}

const command_line::registrar layouts_command_registered{layouts_command()};

}  // namespace
}  // namespace orchard::examples
