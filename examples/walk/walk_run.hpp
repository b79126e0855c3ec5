// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "absl/status/statusor.h"
#include "examples/graph/edge_list.hpp"
#include "examples/walk/progress.hpp"
#include "examples/walk/walk_options.hpp"
#include "examples/walk/walk_result.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::examples {

/// The whole job on a fresh heap: inserts the edges of `graph`, walks, checks, frees everything, checks again.
///
/// A check that does not hold is part of the result. Errors are what kept the run from its end: `InvalidArgument` for
/// a graph without edges, `ResourceExhausted` where host, device or heap have no memory (with the heap's own words on
/// its first failure), `DeadlineExceeded` where threads wait for each other too long, `Internal` with the device's own
/// text.
absl::StatusOr<walk_result> run_walk(heap& h, const edge_list& graph, const walk_options& options, progress& bar);

}  // namespace orchard::examples
