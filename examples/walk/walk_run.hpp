// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The walk from its graph to its result, as `orchard walk`, `orchard demo` and the tests run it.
///
///     insert             threads insert the edges; lists grow by realloc
///     walk               walkers go from vertex to vertex; their lists grow by malloc
///     check adjacency    the host compares all lists with the input
///     check walks        the host checks every step, and walks every walk again
///     free               kernels free everything; the heap must be empty and valid

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "examples/graph/edge_list.hpp"
#include "examples/walk/walk_options.hpp"
#include "examples/walk/walk_result.hpp"
#include "runtime/cli/progress.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::examples {

/// Runs the whole example on a fresh heap: inserts the edges of `graph`, walks, checks, frees everything, and checks
/// again.
///
/// A check that fails is part of the result. Errors are those that prevent the run from completing: `InvalidArgument`
/// for a graph without edges; `ResourceExhausted` if host, device or heap run out of memory (with the heap's report of
/// its first failure); `DeadlineExceeded` if threads wait for each other too long; `Internal` with the device's own
/// text.
absl::StatusOr<walk_result> run_walk(heap& h, const edge_list& graph, const walk_options& options,
                                     command_line::progress& bar);

/// Runs the example in another allocator, of so many bytes, on a device; otherwise as `run_walk`
/// (examples/report/other_allocators.hpp).
using walk_in_allocator = std::function<absl::StatusOr<walk_result>(
    const simt::executor&, std::uint64_t, const edge_list&, const walk_options&, command_line::progress&)>;

}  // namespace orchard::examples
