// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A layer of a graph convolutional network. A thread has some vertices. It sums the features of their neighbours,
/// which lie anywhere, and multiplies the mean by weights that all threads read.

#include <cstdint>
#include <vector>

#include "profiling/uvm/applications/gcn.cuh"
#include "profiling/uvm/applications/session.hpp"
#include "profiling/uvm/applications/values.hpp"

namespace orchard::applications {
namespace {

constexpr std::uint64_t vertices_of_scale = 4;  // of a thread
using namespace kernels::gcn;

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
    s.launch(convolve<std::uint32_t>{dealt.view(), from.view(), weights.view(), to.view(), p.threads, each, 0, each});
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
