// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The report of a walk, for people and for programs.

#include <string>

#include <nlohmann/json.hpp>

#include "examples/graph/edge_list.hpp"
#include "examples/walk/walk_options.hpp"
#include "examples/walk/walk_result.hpp"
#include "runtime/machine/machine_info.hpp"
#include "runtime/options/options.hpp"

namespace orchard::examples {

/// The description of a run, without its results.
struct walk_description {
    std::string source;  ///< the file, or "rmat scale 22, edge factor 16, seed 1"
    device_choice device;
    std::uint32_t vertices = 0;
    std::uint64_t edges = 0;
    std::uint64_t entries = 0;
    std::uint64_t self_loops = 0;
    std::uint64_t duplicates = 0;
    double read_seconds = 0;  ///< time to read or generate the graph
    double heap_seconds = 0;  ///< time to create the heap
    walk_options walk;
    std::string allocator;  ///< empty: a heap; otherwise the allocator that took its place, of `heap.capacity` bytes
    options heap;
};

/// Returns a table for people: the input, phases, the heap's numbers, one line for each check, and the verdict.
std::string to_text(const walk_description& what, const walk_result& result);

/// Returns the members of the JSON document: everything in the table, all options and all statistics.
nlohmann::ordered_json json_of(const walk_description& what, const walk_result& result);

}  // namespace orchard::examples
