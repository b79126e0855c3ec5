// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A graph in the host's memory, for the checks: compressed sparse rows.
///
///     edges 0-1, 0-2        offsets     0  2  3  4          the neighbours of 0 are neighbours[0] and [1],
///                           neighbours  1  2  0  0          of 1 neighbours[2], of 2 neighbours[3]

#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "examples/graph/edge_list.hpp"

namespace orchard::examples {

/// Adjacency as two arrays (compressed sparse rows): the neighbours of v are `neighbours[offsets[v] .. offsets[v +
/// 1])`, in any order. A graph that was only default-constructed has no offsets, and none of the functions below may be
/// called.
struct host_graph {
    std::vector<std::uint64_t> offsets;     ///< vertices + 1
    std::vector<std::uint32_t> neighbours;  ///< both directions of each edge

    /// Return the number of vertices, the number of neighbours of `v`, and the neighbours; `v` < `vertices()`.
    [[nodiscard]] std::uint32_t vertices() const { return static_cast<std::uint32_t>(offsets.size() - 1); }
    [[nodiscard]] std::uint32_t degree(std::uint32_t v) const {
        return static_cast<std::uint32_t>(offsets[v + std::size_t{1}] - offsets[v]);
    }
    [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t v) const {
        return {neighbours.data() + offsets[v], degree(v)};
    }
    /// Returns the greatest degree; 0 without vertices.
    [[nodiscard]] std::uint32_t max_degree() const;
};

/// Returns the adjacency of `list` with both directions of each edge; the neighbours of each vertex ascend. Errors:
/// `ResourceExhausted` if it would not fit this machine's memory. Cost: linear time.
absl::StatusOr<host_graph> make_host_graph(const edge_list& list);

/// Returns true if `a` and `b` are neighbours in a graph whose lists ascend. Cost: log2 of the degree of `a`.
bool has_edge(const host_graph& ascending, std::uint32_t a, std::uint32_t b);

}  // namespace orchard::examples
