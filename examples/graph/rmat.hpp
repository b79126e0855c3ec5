// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The generator of graphs for `orchard walk --rmat`.

#include <cstdint>

#include <absl/status/statusor.h>

#include "examples/graph/edge_list.hpp"
#include "examples/graph/host_memory.hpp"

namespace orchard::examples {

/// The graph to generate: 2^scale vertices, and edge_factor x 2^scale entries before duplicates are dropped.
struct rmat_options {
    int scale = 16;        ///< log2 of the number of vertices, 1 to 30
    int edge_factor = 16;  ///< entries for each vertex, 1 to 1024
    std::uint64_t seed = 1;
};

/// Returns a Kronecker graph: few vertices have very many neighbours, most have few, some have none. The same options
/// give the same graph on every machine.
///
/// Errors: `InvalidArgument` for a number out of its range; `ResourceExhausted` if making it would take more than
/// `memory` bytes. Cost: scale / 2 hashes for each entry and a sort; at the peak 16 bytes for each entry (scale 22:
/// 67 million entries, 1.1 GB). Source: Chakrabarti, Zhan, Faloutsos: R-MAT (SDM 2004), with the parameters of the GAP
/// benchmark (Beamer, Asanovic, Patterson, arXiv:1508.03619): A = 0.57, B = C = 0.19, vertices renamed at random.
absl::StatusOr<edge_list> generate_rmat(const rmat_options& options, std::uint64_t memory = host_memory_bytes());

}  // namespace orchard::examples
