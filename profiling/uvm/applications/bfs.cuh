// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernel of `bfs`: one level of a breadth-first search.

#include <cstdint>

#include "profiling/uvm/applications/graph_view.cuh"

namespace orchard::applications::kernels::bfs {

inline constexpr std::uint32_t unreached = ~std::uint32_t{0};

/// One level: each thread looks at its vertices `first` to `last` - 1, and marks the neighbours of those at depth
/// `depth`. `Edge` is the type of the numbers of edges.
template <class Edge>
struct search_level {
    graph_view<Edge> graph;
    parts<counter> level;  ///< [vertices]: level of each; `unreached` at first
    counter* reached;      // number of vertices that this level reached
    std::uint64_t threads;
    std::uint64_t each;   ///< vertices of a thread
    std::uint64_t first;  ///< of each thread's vertices of this launch
    std::uint64_t last;   ///< behind them
    std::uint32_t depth;  ///< the level whose neighbours are marked

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        std::uint32_t marked = 0;
        for (std::uint64_t v = t * each + first; t < threads && v < t * each + last; ++v) {
            // Relaxed, here and below: the previous launch wrote the values that this level reads.
            if (level[v].template load<simt::order::relaxed>() == depth) {
                const Edge end = graph.begin[v + 1].get();
                // Edges of a vertex: their number differs much, since the graph is of a power law.
                for (Edge e = graph.begin[v].get(); e < end; ++e) {
                    marked += reach(graph.to[e].get()) ? 1 : 0;
                }
            }
            // Few lanes have a vertex of this level: the others wait here, as on a GPU.
            reconverge();
        }
        if (marked != 0) {
            reached->fetch_add<simt::order::relaxed>(marked);
        }
    }
    /// Marks a vertex if no other thread has, and returns true if it did: of several threads that find it, one.
    ORCHARD_FN bool reach(std::uint32_t v) const {
        // The load first, so that a vertex that was reached before costs no atomic.
        std::uint32_t found = level[v].template load<simt::order::relaxed>();
        return found == unreached && level[v].template compare_exchange<simt::order::relaxed>(found, depth + 1);
    }
};

}  // namespace orchard::applications::kernels::bfs
