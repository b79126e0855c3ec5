// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Breadth-first search with one launch for each level. A thread reads its own vertices, and marks the neighbours of
/// those that the previous level reached; these neighbours lie anywhere.

#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/bfs.cuh"
#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t vertices_of_scale = 16;  // of a thread
using namespace kernels::bfs;

/// Returns the level of each vertex.
std::vector<std::int64_t> levels_from(const uvm_model::csr& graph, std::uint64_t source) {
    std::vector<std::int64_t> level(graph.vertices(), unreached);
    std::vector<std::uint64_t> queue{source};
    level[source] = 0;
    for (std::size_t next = 0; next < queue.size(); ++next) {
        const std::uint64_t v = queue[next];
        for (std::uint64_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
            if (level[graph.to[e]] == unreached) {
                level[graph.to[e]] = level[v] + 1;
                queue.push_back(graph.to[e]);
            }
        }
    }
    return level;
}

/// Runs level after level until one reaches no vertex, and compares the levels.
void search(session& s, const parameters& p, const uvm_model::csr& graph) {
    // An end of the first edge, so that the vertex has a neighbour.
    const std::uint64_t source = graph.to.front();
    const dealt_graph dealt(s, graph);
    // One vertex is at level 0.
    const auto level =
        s.array<counter>(graph.vertices(), 1, [&](std::uint64_t v) { return v == source ? 0 : unreached; });
    auto reached = device_array<counter>::create(simt::executor{}, 1);
    s.fail(reached.status());
    const std::uint64_t each = vertices_of_scale * p.scale;
    // 1: the first level has the source.
    counter count{1};
    for (std::uint32_t depth = 0; s.status().ok() && count.load<simt::order::relaxed>() != 0; ++depth) {
        s.fail(reached->zero());
        s.launch(
            search_level<std::uint32_t>{dealt.view(), level.view(), reached->data(), p.threads, each, 0, each, depth});
        s.fail(reached->download({&count, 1}));
    }
    s.expect("bfs", s.contents(level, graph.vertices()), levels_from(graph, source));
}

}  // namespace

absl::StatusOr<uvm_model::trace> bfs(const parameters& p) {
    const absl::StatusOr<uvm_model::csr> graph = make_graph(p, vertices_of_scale * p.scale);
    if (!graph.ok()) {
        return graph.status();
    }
    return run_session(p, bytes_of(*graph) + 4 * graph->vertices(), [&](session& s) { search(s, p, *graph); });
}

}  // namespace orchard::applications
