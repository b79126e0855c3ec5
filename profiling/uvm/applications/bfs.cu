// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// Breadth-first search with one launch for each level. A thread reads its own vertices, and marks the neighbours of
/// those that the previous level reached; these neighbours lie anywhere.

#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t vertices_of_scale = 16;  // of a thread
constexpr std::uint32_t unreached = ~std::uint32_t{0};

/// One level: each thread looks at its vertices, and marks the neighbours of those at depth `depth`.
struct search_level {
    graph_view graph;
    parts<counter> level;  ///< [vertices]: level of each; `unreached` at first
    counter* reached;      // number of vertices that this level reached
    std::uint64_t threads;
    std::uint64_t each;   ///< vertices of a thread
    std::uint32_t depth;  ///< the level whose neighbours are marked

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t v = t * each; t < threads && v < (t + 1) * each; ++v) {
            // Relaxed, here and below: the previous launch wrote the values that this level reads.
            if (level[v].template load<simt::order::relaxed>() == depth) {
                const std::uint32_t end = graph.begin[v + 1].get();
                // Edges of a vertex: their number differs much, since the graph is of a power law.
                for (std::uint32_t e = graph.begin[v].get(); e < end; ++e) {
                    reach(graph.to[e].get());
                }
            }
            // Few lanes have a vertex of this level: the others wait here, as on a GPU.
            reconverge();
        }
    }
    /// Marks a vertex if no other thread has. Of several threads that find it, one counts it.
    ORCHARD_FN void reach(std::uint32_t v) const {
        // The load first, so that a vertex that was reached before costs no atomic.
        std::uint32_t found = level[v].template load<simt::order::relaxed>();
        if (found == unreached && level[v].template compare_exchange<simt::order::relaxed>(found, depth + 1)) {
            reached->fetch_add<simt::order::relaxed>(1);
        }
    }
};

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
    // 1: the first level has the source.
    counter count{1};
    for (std::uint32_t depth = 0; s.status().ok() && count.load<simt::order::relaxed>() != 0; ++depth) {
        s.fail(reached->zero());
        s.launch(
            search_level{dealt.view(), level.view(), reached->data(), p.threads, vertices_of_scale * p.scale, depth});
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
