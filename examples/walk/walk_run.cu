// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "examples/walk/walk_run.hpp"

#include "examples/walk/walk_steps.cuh"

namespace orchard::examples {

absl::StatusOr<walk_result> run_walk(heap& h, const edge_list& graph, const walk_options& options,
                                     command_line::progress& bar) {
    return run_walk_in(h.executor(), h.ref(), &h, graph, options, bar);
}

}  // namespace orchard::examples
