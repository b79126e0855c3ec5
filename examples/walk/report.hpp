// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <string>

#include "examples/graph/edge_list.hpp"
#include "examples/walk/walk_options.hpp"
#include "examples/walk/walk_result.hpp"
#include "runtime/options/options.hpp"

namespace orchard::examples {

/// What a run was, beside what it gave.
struct walk_description {
    std::string command;  ///< as it was typed
    std::string source;   ///< the file, or "rmat scale 22, edge factor 16, seed 1"
    std::string device;   ///< "emulated" or "cuda"
    std::string reason;   ///< why that device
    std::uint32_t vertices = 0;
    std::uint64_t edges = 0;
    std::uint64_t entries = 0;
    std::uint64_t self_loops = 0;
    std::uint64_t duplicates = 0;
    double read_seconds = 0;  ///< to read or generate the graph
    double heap_seconds = 0;  ///< to create the heap
    walk_options walk;
    options heap;
};

/// A table for people: the input, phases, the heap's numbers, one line a check, and the verdict.
std::string to_text(const walk_description& what, const walk_result& result);

/// The checks alone.
std::string checks_text(const walk_result& result);

/// A JSON object with everything that the table has, and all statistics; "version" 1. Ends with a newline.
std::string to_json(const walk_description& what, const walk_result& result);

}  // namespace orchard::examples
