// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Graphs that `orchard graph` makes itself, and the orders in which their edges come.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/graph/edge_list.hpp"
#include "examples/graph/host_memory.hpp"
#include "examples/graph/read_graph.hpp"

namespace orchard::examples {

/// Returns a graph by its description, all with edges in both directions and without loops and duplicates:
///
///     rmat:SCALE[,FACTOR]     Kronecker graph of 2^SCALE vertices with FACTOR (16) entries a vertex
///     er:VERTICES,EDGES       Erdős-Rényi: so many random pairs of different vertices
///     grid:WIDTHxHEIGHT[,PERCENT]   each vertex with its four neighbours; PERCENT (10) of the vertices are holes
///     rgg:VERTICES,DEGREE     random points in a square, joined if they are near: DEGREE neighbours on average
///     anything else           a file: MatrixMarket, METIS (*.metis) or an edge list, plain or gzip
///
/// Weights are kept if they are asked for, and a file has some. `memory`: bytes that a graph which is no file may take
/// while it is made. Errors: InvalidArgument with the part that is wrong and what is allowed; ResourceExhausted if
/// there is not enough memory; those of the readers.
absl::StatusOr<edge_list> graph_of(const std::string& description, std::uint64_t seed,
                                   edge_weights weights = edge_weights::dropped,
                                   std::uint64_t memory = host_memory_bytes());

/// The order in which edges are added.
enum class edge_order : std::uint8_t {
    uniform,  ///< random
    skewed,   ///< by their lower vertex, so that a batch changes few vertices
};

/// Returns the edges in an order.
std::vector<edge> ordered(const edge_list& graph, edge_order order, std::uint64_t seed);

/// Returns `count` random edges from `sources` random vertices, without loops; some may be twice.
std::vector<edge> pressure_edges(std::uint32_t vertices, std::uint32_t sources, std::uint64_t count,
                                 std::uint64_t seed);

}  // namespace orchard::examples
