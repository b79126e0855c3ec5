// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A layer of a graph convolutional network. A thread has some vertices. It sums the features of their neighbours,
/// which lie anywhere, and multiplies the mean by weights that all threads read.

#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t vertices_of_scale = 4;  // of a thread
constexpr std::uint64_t features = 16;
constexpr std::uint64_t outputs = 8;

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

/// Each thread computes the outputs of its vertices: sums of features over neighbours, which lie anywhere, then
/// products with the weights.
struct convolve {
    graph_view graph;
    parts<number> from;     ///< [vertices][features]
    parts<number> weights;  ///< [features][outputs]
    parts<number> to;       ///< [vertices][outputs]
    std::uint64_t threads;
    std::uint64_t each;  ///< vertices of a thread

    ORCHARD_FN void operator()(simt::thread_position at) const {
        const std::uint64_t t = at.global_thread();
        for (std::uint64_t v = t * each; t < threads && v < (t + 1) * each; ++v) {
            std::int32_t sums[features] = {};
            // The vertex counts itself among its neighbours.
            add_features(sums, v);
            const std::uint32_t begin = graph.begin[v].get();
            const std::uint32_t end = graph.begin[v + 1].get();
            for (std::uint32_t e = begin; e < end; ++e) {
                add_features(sums, graph.to[e].get());
            }
            // Lists have different lengths: the lanes meet before they write.
            reconverge();
            for (std::uint64_t o = 0; o < outputs; ++o) {
                to[v * outputs + o].set(
                    output_of(sums, end - begin + 1, o, [&](std::uint64_t i) { return weights[i].get(); }));
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

/// Runs the layer, and compares the outputs of all vertices.
void layer(session& s, const parameters& p, const uvm_model::csr& graph) {
    const auto feature = [&](std::uint64_t i) { return static_cast<std::int32_t>(value(p, 1, i, 1000)); };
    const auto weight = [&](std::uint64_t i) { return static_cast<std::int32_t>(signed_value(p, 2, i)); };
    const std::uint64_t vertices = graph.vertices();
    const std::uint64_t each = vertices_of_scale * p.scale;
    const dealt_graph dealt(s, graph);
    const auto from = s.array<number>(vertices * features, features * each, feature);
    const auto weights = s.array<number>(features * outputs, outputs, weight);
    const auto to = s.array<number>(vertices * outputs, outputs * each, [](std::uint64_t) { return 0; });
    s.launch(convolve{dealt.view(), from.view(), weights.view(), to.view(), p.threads, each});
    // The same layer on the host, with all numbers computed anew.
    std::vector<std::int64_t> right;
    for (std::uint64_t v = 0; v < vertices; ++v) {
        std::vector<std::int32_t> sums(features);
        for (std::uint64_t f = 0; f < features; ++f) {
            sums[f] = feature(v * features + f);
            for (std::uint64_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
                sums[f] += feature(graph.to[e] * features + f);
            }
        }
        const auto together = static_cast<std::uint32_t>(graph.begin[v + 1] - graph.begin[v] + 1);
        for (std::uint64_t o = 0; o < outputs; ++o) {
            right.push_back(output_of(sums.data(), together, o, weight));
        }
    }
    s.expect("gcn", s.contents(to, vertices * outputs), right);
}

}  // namespace

absl::StatusOr<uvm_model::trace> gcn(const parameters& p) {
    const absl::StatusOr<uvm_model::csr> graph = make_graph(p, vertices_of_scale * p.scale);
    if (!graph.ok()) {
        return graph.status();
    }
    const std::uint64_t bytes = bytes_of(*graph) + 4 * graph->vertices() * (features + outputs);
    return run_session(p, bytes, [&](session& s) { layer(s, p, *graph); });
}

}  // namespace orchard::applications
