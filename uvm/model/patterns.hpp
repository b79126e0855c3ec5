// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Patterns of access that are computed on request: docs/uvm_traces.md. A pattern says which bytes the threads of a
/// kernel access, and a `placement` where these bytes lie, so that one pattern can be run under many layouts.
///
///     step              0   1   2   3   4  ...              the element that one thread accesses, of 8 elements
///     random            5   0   7   7   2                   each thread another one
///     same_index        5   0   7   7   2                   all lanes of a warp the same one, each of its own memory
///     sequential        0   1   2   3   4
///     strided (2)       0   2   4   6   1                   every second element, then those between them
///     growth            -   0   -   1   -                   writes; this thread has half of the fastest pace
///     graph_walk        an edge of the current vertex       in any thread's memory

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "uvm/model/access.hpp"
#include "uvm/model/graph.hpp"
#include "uvm/model/offsets.hpp"
#include "uvm/model/placement.hpp"

namespace orchard::uvm_model {

/// Identifies a pattern; `pattern_entry::name` is its name on the command line.
enum class pattern : std::uint8_t { random, same_index, sequential, strided, graph_walk, growth };

/// A pattern with its name and one line of help.
struct pattern_entry {
    pattern which;
    std::string_view name;
    std::string_view help;
};
/// Returns all patterns, in the order of the enumeration.
std::span<const pattern_entry> patterns();
/// Returns the pattern called `name`. Errors: InvalidArgument with the known names.
absl::StatusOr<pattern> pattern_named(std::string_view name);

/// The parameters of a pattern.
struct pattern_parameters {
    thread_memory memory;
    std::uint64_t accesses_per_thread = 1000;  ///< steps; `growth` makes at most as many as a thread has elements
    std::uint64_t seed = 1;                    ///< of the random numbers: the same seed gives the same accesses
    std::uint64_t stride = 4096;               ///< `strided`: bytes, a multiple of the element's
    std::uint64_t vertices = 0;                ///< `graph_walk` without a graph: 0 means one vertex for 16 elements
    std::shared_ptr<const csr> graph;          ///< `graph_walk`: null: creates one that fills the memory
};

/// Returns the graph that `graph_walk` uses if none is given. Errors: those of `placement::create` and of `power_law`.
/// Cost: 0.1 us an edge.
absl::StatusOr<std::shared_ptr<const csr>> graph_for(const pattern_parameters& of);

/// Returns the pattern's offsets. Errors: those of `placement::create`; InvalidArgument for 0 accesses, and for a
/// stride of 0 or one that is no multiple of an element; for a graph, those of `validate` and `power_law`, and
/// InvalidArgument if it does not fit the threads' memory. Cost: O(1); for a graph: its edges, and 8 B for each thread.
absl::StatusOr<std::unique_ptr<offset_source>> make_offsets(pattern which, const pattern_parameters& of);

/// Returns the placed accesses: `placed(make_offsets(...), placement::create(of.memory))`.
absl::StatusOr<std::unique_ptr<access_source>> make_pattern(pattern which, const pattern_parameters& of);

}  // namespace orchard::uvm_model
