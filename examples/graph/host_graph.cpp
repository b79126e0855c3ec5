// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The adjacency of a list of edges, in two passes over it; see host_graph.hpp.
///
///     1    count the edges at each vertex       2    sums of the counts: where each list begins
///     3    put each edge into both lists

#include "examples/graph/host_graph.hpp"

#include <algorithm>
#include <numeric>

#include <absl/strings/str_format.h>

#include "examples/graph/host_memory.hpp"

namespace orchard::examples {

std::uint32_t host_graph::max_degree() const {
    std::uint32_t most = 0;
    for (std::uint32_t v = 0; v < vertices(); ++v) {
        most = std::max(most, degree(v));
    }
    return most;
}

/// The memory is checked for the result, the places of pass 3, and the edges themselves.
absl::StatusOr<host_graph> make_host_graph(const edge_list& list) {
    const std::uint64_t bytes = (std::uint64_t{list.vertices} + 1) * 2 * sizeof(std::uint64_t) +
                                list.edges.size() * (2 * sizeof(std::uint32_t) + sizeof(edge));
    absl::Status fits = check_host_memory(
        bytes, absl::StrFormat("a graph of %u vertices and %u edges", list.vertices, list.edges.size()));
    if (!fits.ok()) {
        return fits;
    }
    host_graph graph;
    graph.offsets.assign(std::size_t{list.vertices} + 1, 0);
    for (const edge e : list.edges) {
        // One place late: after the sums below, `offsets[v]` is the number of entries of all vertices before v.
        ++graph.offsets[std::size_t{e.low()} + 1];
        ++graph.offsets[std::size_t{e.high()} + 1];
    }
    std::inclusive_scan(graph.offsets.begin(), graph.offsets.end(), graph.offsets.begin());
    graph.neighbours.resize(list.edges.size() * 2);
    // place[v]: the first entry of v's list that is not filled yet.
    std::vector<std::uint64_t> place(graph.offsets.begin(), graph.offsets.end() - 1);
    // The edges ascend by (low, high). A vertex therefore gets its smaller neighbours first, ascending, then the
    // larger.
    for (const edge e : list.edges) {
        graph.neighbours[place[e.low()]++] = e.high();
        graph.neighbours[place[e.high()]++] = e.low();
    }
    return graph;
}

bool has_edge(const host_graph& ascending, std::uint32_t a, std::uint32_t b) {
    const std::span<const std::uint32_t> list = ascending.of(a);
    return std::binary_search(list.begin(), list.end(), b);
}

}  // namespace orchard::examples
