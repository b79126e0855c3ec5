// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The initial numbers and graphs of the recorded applications. All are computed from the seed, so that the host can
/// compute the expected results without reading what the kernels have read.

#include <cstdint>

#include "profiling/uvm/applications/graph_view.cuh"
#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/value_function.cuh"
#include "uvm/model/graph.hpp"

namespace orchard::applications {

/// Return the numbers of value_function.cuh, for the seed of `p`.
inline std::int64_t value(const parameters& p, std::uint64_t stream, std::uint64_t i, std::uint64_t bound) {
    return value(p.seed, stream, i, bound);
}
inline std::int64_t signed_value(const parameters& p, std::uint64_t stream, std::uint64_t i) {
    return signed_value(p.seed, stream, i);
}

/// A graph in the threads' memory.
struct dealt_graph {
    dealt_array<index> begin;  ///< of vertex v and of v + 1: where its list begins and ends
    dealt_array<index> to;     ///< the neighbours of all vertices, list after list

    /// Deals out the graph over the parts of `s`. Elements behind the graph's, which rounding adds, are 0.
    dealt_graph(session& s, const uvm_model::csr& graph)
        : begin{s.array<index>(graph.vertices() + 1, 1,
                               [&](std::uint64_t v) { return v <= graph.vertices() ? graph.begin[v] : 0; })},
          to{s.array<index>(graph.edges(), 1, [&](std::uint64_t e) { return e < graph.edges() ? graph.to[e] : 0; })} {}
    [[nodiscard]] graph_view<std::uint32_t> view() const { return {begin.view(), to.view()}; }
};

/// Returns a power-law graph in which each thread has `vertices_per_thread` vertices, of 8 edges on average. Errors:
/// those of `uvm_model::power_law`.
inline absl::StatusOr<uvm_model::csr> make_graph(const parameters& p, std::uint64_t vertices_per_thread) {
    const std::uint64_t vertices = p.threads * vertices_per_thread;
    return uvm_model::power_law(vertices, 8 * vertices, p.seed);
}
/// Returns the bytes of such a graph.
inline std::uint64_t bytes_of(const uvm_model::csr& graph) { return 4 * (graph.vertices() + 1 + graph.edges()); }

}  // namespace orchard::applications
