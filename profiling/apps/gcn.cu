// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// A layer of a graph convolutional network on real memory: 16 features and eight neighbours a vertex. A pass computes
/// the outputs of the first vertices of each thread.
///
/// Check: outputs of vertices, from the seed.

#include "profiling/uvm/applications/gcn.cuh"

#include "profiling/apps/app_run.cuh"
#include "profiling/apps/generated_graph.cuh"

namespace orchard::apps {
namespace of_gcn {
namespace {

using namespace applications::kernels::gcn;

struct is_output {
    parts<number> to;
    random_graph graph;
    below feature;
    small_signed weight;
    std::uint64_t each;  ///< vertices of a thread
    std::uint64_t last;  ///< those that were computed

    ORCHARD_FN bool operator()(std::uint64_t result) const {
        const std::uint64_t computed = result / outputs;
        const std::uint64_t v = computed / last * each + computed % last;
        std::int32_t sums[features] = {};
        add_features(sums, v);
        for (std::uint32_t j = 0; j < random_graph::degree; ++j) {
            add_features(sums, graph.neighbour(v, j));
        }
        const std::uint64_t o = result % outputs;
        return to[v * outputs + o].get() == output_of(sums, random_graph::degree + 1, o, weight);
    }
    ORCHARD_FN void add_features(std::int32_t* sums, std::uint64_t v) const {
        for (std::uint64_t f = 0; f < features; ++f) {
            sums[f] += feature(v * features + f);
        }
    }
};

}  // namespace
}  // namespace of_gcn

void run_gcn(app_run& s) {
    using namespace of_gcn;
    constexpr std::uint64_t vertex_bytes = list_bytes + 4 * (features + outputs);
    const std::uint64_t threads = s.threads();
    const std::uint64_t each = s.at_least_one(s.what().bytes / (vertex_bytes * threads), "vertices");
    const random_graph graph = make_graph(s, threads * each);
    const below feature{s.seed(), 1, 1000};
    const small_signed weight{s.seed(), 2};
    const auto weights = s.array<number>(features * outputs, outputs, weight);
    const auto from = s.array<number>(threads * each * features, features * each, feature);
    const auto to = s.array<number>(threads * each * outputs, outputs * each, constant{});
    const auto dealt = deal_graph(s, graph);
    // The ends of the list; the neighbours, and features of all nine vertices; for each output all weights.
    const double words = random_graph::degree + (random_graph::degree + 1) * features + outputs * (features + 1);
    const std::uint64_t last = s.passes({each, 2 + words, 2 * 8 + 4 * words}, [&](item_range r) {
        s.timed(convolve<std::uint64_t>{dealt, from, weights, to, threads, each, r.first, r.last});
    });
    s.check(to, threads * last * outputs, is_output{to, graph, feature, weight, each, last});
}

}  // namespace orchard::apps
