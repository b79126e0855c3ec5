// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The table of the applications on real memory.

#include <array>
#include <string>

#include "absl/strings/str_format.h"
#include "profiling/apps/app.hpp"

namespace orchard::apps {

namespace {

/// In the order of the recorded applications.
constexpr std::array<app, 8> all_apps{{
    {"gemm", "product of a tall matrix, a row a thread, and a narrow one that all read", "columns of A",
     "elements of the product, from the seed", run_gemm},
    {"stencil", "a sweep of a five-point stencil over rows, one a thread", "columns of the grid",
     "places of the new grid, from the seed", run_stencil},
    {"k-means", "a round of clustering points in four dimensions", "points of each thread",
     "the nearest mean of points, from the seed; the clusters have as many points as there are", run_k_means},
    {"bfs", "breadth-first search of a random graph, level by level", "vertices whose neighbours were marked",
     "each vertex but the root has a neighbour one level up, and none more than one level down", run_bfs},
    {"spmv", "sparse matrix times vector, on a random graph", "rows of each thread",
     "elements of the product, from the seed", run_spmv},
    {"b-plus-tree", "lookups of random keys in a B+ tree", "lookups of each thread",
     "the values found, or that a key is absent, from the seed", run_b_plus_tree},
    {"alexnet", "convolution, pooling and a fully connected layer", "outputs of each thread",
     "outputs of the last layer, from the seed by all layers", run_alex_net},
    {"gcn", "one layer of a graph convolutional network, of 16 features a vertex", "vertices of each thread",
     "outputs of vertices, from the seed", run_gcn},
}};

}  // namespace

std::span<const app> apps() { return all_apps; }

absl::StatusOr<std::vector<app>> apps_named(std::string_view name) {
    if (name == "all") {
        return std::vector<app>(all_apps.begin(), all_apps.end());
    }
    std::string names;
    for (const app& a : all_apps) {
        if (a.name == name) {
            return std::vector<app>{a};
        }
        names += a.name;
        names += ", ";
    }
    return absl::InvalidArgumentError(absl::StrFormat("there is no application %s; there are: %sall", name, names));
}

}  // namespace orchard::apps
