// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The table of the applications.

#include <array>
#include <string>

#include "absl/strings/str_format.h"
#include "profiling/uvm/applications/application.hpp"

namespace orchard::applications {

namespace {

/// In the order in which they are listed to users.
constexpr std::array<application, 8> table{{
    {"gemm", "product of a tall matrix, a row a thread, and a narrow one that all read; scale: 128 columns", gemm},
    {"stencil", "four sweeps of a five-point stencil over rows, one a thread; scale: 256 columns", stencil},
    {"k-means", "two rounds of clustering points in four dimensions; scale: 16 points a thread", k_means},
    {"bfs", "breadth-first search of a power-law graph, level by level; scale: 16 vertices a thread", bfs},
    {"spmv", "sparse matrix times vector, twice, on a power-law graph; scale: 16 rows a thread", spmv},
    {"b-plus-tree", "lookups of random keys, 32 a thread, in a B+ tree; scale: 64 keys a thread", b_plus_tree},
    {"alexnet", "convolution, pooling and a fully connected layer; scale: outputs of that layer a thread", alex_net},
    {"gcn", "one layer of a graph convolutional network; scale: 4 vertices a thread, of 16 features", gcn},
}};

}  // namespace

std::span<const application> applications() { return table; }

absl::StatusOr<application> application_named(std::string_view name) {
    std::string names;
    for (const application& a : table) {
        if (a.name == name) {
            return a;
        }
        names += names.empty() ? "" : ", ";
        names += a.name;
    }
    return absl::InvalidArgumentError(absl::StrFormat("there is no application %s; there are: %s", name, names));
}

}  // namespace orchard::applications
