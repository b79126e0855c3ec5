// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The kernel of `gcn`: one layer of a graph convolutional network.

#include <cstdint>

#include "profiling/uvm/applications/graph_view.cuh"

namespace orchard::applications::kernels::gcn {

inline constexpr std::uint64_t features = 16;
inline constexpr std::uint64_t outputs = 8;

/// Computes the mean of the features from their sum over a vertex and its neighbours, and from it the output `o`, not
/// below 0.
template <class Weight>
ORCHARD_FN std::int32_t output_of(const std::int32_t* sums, std::uint32_t vertices, std::uint64_t o,
                                  const Weight& weight) {
    std::int32_t sum = 0;
    for (std::uint64_t f = 0; f < features; ++f) {
        sum += sums[f] / static_cast<std::int32_t>(vertices) * weight(f * outputs + o);
    }
    return sum < 0 ? 0 : sum;
}

/// Each thread computes the outputs of its vertices `first` to `last` - 1: sums of features over neighbours, which lie
/// anywhere, then products with the weights.
template <class Edge>
struct convolve {
    graph_view<Edge> graph;
    parts<number> from;     ///< [vertices][features]
    parts<number> weights;  ///< [features][outputs]
    parts<number> to;       ///< [vertices][outputs]
    std::uint64_t threads;
    std::uint64_t each;   ///< vertices of a thread
    std::uint64_t first;  ///< of each thread's vertices of this launch
    std::uint64_t last;   ///< behind them

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t v = t * each + first; t < threads && v < t * each + last; ++v) {
            std::int32_t sums[features] = {};
            // The vertex counts itself among its neighbours.
            add_features(sums, v);
            const Edge begin = graph.begin[v].get();
            const Edge end = graph.begin[v + 1].get();
            for (Edge e = begin; e < end; ++e) {
                add_features(sums, graph.to[e].get());
            }
            // Lists have different lengths: the lanes meet before they write.
            reconverge();
            for (std::uint64_t o = 0; o < outputs; ++o) {
                to[v * outputs + o].set(output_of(sums, static_cast<std::uint32_t>(end - begin + 1), o,
                                                  [&](std::uint64_t i) { return weights[i].get(); }));
            }
        }
    }
    /// Adds the features of vertex `v`: 16 consecutive elements of another thread's part.
    ORCHARD_FN void add_features(std::int32_t* sums, std::uint64_t v) const {
        for (std::uint64_t f = 0; f < features; ++f) {
            sums[f] += from[v * features + f].get();
        }
    }
};

}  // namespace orchard::applications::kernels::gcn
