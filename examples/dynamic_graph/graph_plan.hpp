// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The batches of a run of `orchard graph`, in their order.

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/dynamic_graph/graph_run.hpp"

namespace orchard::examples {

/// Edges to add or to remove.
struct planned_batch {
    bool adds = true;
    std::span<const edge> edges;
    bool second = false;  ///< with the weights of the second version
};

struct batch_plan {
    std::vector<planned_batch> batches;
    std::vector<std::vector<edge>> made;  ///< edges of batches that are in no version of the graph
};

/// What a second version of a graph has more than the first, and what it lacks. Edges with another weight are in both.
struct version_difference {
    std::vector<edge> added;
    std::vector<edge> removed;
};

/// Returns the difference between the edges of the first version and `o.second`.
version_difference difference_of(std::vector<edge> first, const graph_options& o);

/// Returns the batches of `o.mode`, which refer to `edges` and `change`. Errors: InvalidArgument if the second version
/// needs more batches than there may be.
absl::StatusOr<batch_plan> plan(std::uint32_t vertices, const std::vector<edge>& edges,
                                const version_difference& change, const graph_options& o);

}  // namespace orchard::examples
