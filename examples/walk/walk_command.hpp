// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The command of the walk: its arguments, and its run from the arguments to the exit code. `orchard walk` and `orchard
/// demo` share it.

#include <cstdint>
#include <string>

#include "examples/walk/walk_options.hpp"
#include "runtime/cli/json_output.hpp"
#include "runtime/options/options.hpp"

namespace CLI {
class App;
}

namespace orchard::examples {

/// The arguments of `orchard walk` and `orchard demo`.
struct walk_arguments {
    std::string file;      ///< path of the graph; unused if `rmat_scale` is not 0
    int rmat_scale = 0;    ///< scale of a graph to generate; 0: read `file`
    int edge_factor = 16;  ///< edges a vertex of a generated graph
    command_line::json_option json;
    bool quiet = false;                 ///< print the checks only
    bool capacity_given = false;        ///< otherwise the capacity follows from the graph
    std::string allocator = "orchard";  ///< another one takes the heap's place
    walk_options walk;
    options heap;
};

/// Adds the flags that `walk` and `demo` share: the walk's and the heap's.
void add_walk_flags(CLI::App& app, walk_arguments& arguments);

/// Reads or generates the graph, creates a heap, runs the walk, prints the report and writes the JSON. Returns the
/// process's exit code: 0 if all checks passed, 1 if a check or the run failed, 2 for bad input.
/// @param explanation  printed before the report, unless `quiet`
int run_walk_command(walk_arguments& arguments, const std::string& explanation);

}  // namespace orchard::examples
