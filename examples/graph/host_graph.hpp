// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "examples/graph/edge_list.hpp"

namespace orchard::examples {

/// Adjacency as two arrays (compressed sparse rows): the neighbours of v are
/// `neighbours[offsets[v] .. offsets[v + 1])`, in any order.
struct host_graph {
    std::vector<std::uint64_t> offsets;  ///< vertices + 1
    std::vector<std::uint32_t> neighbours;

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
