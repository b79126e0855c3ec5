// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <string>

#include "examples/walk/walk_options.hpp"
#include "runtime/options/options.hpp"

namespace CLI {
class App;
}

namespace orchard::examples {

/// What `orchard walk` and `orchard demo` are told.
struct walk_arguments {
    std::string file;    ///< the graph, or
    int rmat_scale = 0;  ///< the scale of one to generate; 0: read `file`
    int edge_factor = 16;
    std::string json;    ///< where the JSON goes; empty: nowhere
    bool quiet = false;  ///< print the checks alone
    bool capacity_given = false;
    walk_options walk;
    options heap;
};

/// Adds the flags that `walk` and `demo` share: the walk's and the heap's.
void add_walk_flags(CLI::App& app, walk_arguments& arguments);

/// Reads or generates, makes a heap, runs, prints, writes the JSON. Returns the process's exit code: 0 all checks
/// passed, 1 a check or the run failed, 2 bad input.
int run_walk_command(walk_arguments& arguments, const std::string& explanation);

}  // namespace orchard::examples
