// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Graphs for the pattern graph-walk, as compressed sparse rows.
///
///     vertices 0, 1, 2; edges 0-1 and 0-2, each in both directions
///     begin   0  2  3  4            the list of vertex 0 is to[0] and to[1], of vertex 1 to[2], of vertex 2 to[3]
///     to      1  2  0  0

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard::uvm_model {

/// Adjacency lists, one after another: those of vertex v are `to[begin[v]]` to `to[begin[v + 1] - 1]`.
struct csr {
    std::vector<std::uint64_t> begin;  ///< for each vertex, and the end of the last list
    std::vector<std::uint32_t> to;     ///< vertices

    /// Return the numbers of vertices and of list entries. An undirected edge has two entries.
    [[nodiscard]] std::uint64_t vertices() const { return begin.empty() ? 0 : begin.size() - 1; }
    [[nodiscard]] std::uint64_t edges() const { return to.size(); }
};

/// Checks a graph. Errors: InvalidArgument, with the position, if lists do not ascend or an edge leads to no vertex,
/// and if there is no edge.
absl::Status validate(const csr& graph);

/// The most edges that `power_law` makes: 2^26, which take 256 MiB.
inline constexpr std::uint64_t max_generated_edges = 1ull << 26;

/// Returns a random graph. The ends of edges are drawn so that the r-th vertex of n has a share proportional to
/// r^(-2/3). The number of vertices of degree d then falls as d^(-5/2). The assignment of ranks to vertices is random.
/// Every edge is in both lists; no vertex is in its own list, and some vertices have no edges. An edge may be drawn
/// several times, and is then listed as often. Computed in whole numbers only, so the graph is the same on every
/// machine.
/// @param edges  entries of the lists, rounded down to an even number
/// Errors: InvalidArgument for fewer than 2 vertices or more than 2^32 - 2, under 2 or above `max_generated_edges`
/// edges. Cost: about 30 ns an edge.
absl::StatusOr<csr> power_law(std::uint64_t vertices, std::uint64_t edges, std::uint64_t seed);

}  // namespace orchard::uvm_model
