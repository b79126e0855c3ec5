// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Examples of arrays of lanes: each file holds the kernels and the host side of one. docs/layouts.md lists them.
///
///     per_thread_arrays.cu    tables of threads that compute in step, as blocks and as arrays of lanes
///     lane_stack.cu           a stack for each lane in place of recursion
///     hand_over.cu            pointers to a lane's array, used by other warps
///     row_matrix.cu           rows of any lengths, read by tiles, by elements, and column by column
///     layouts_command.cpp     runs all of them: `orchard layouts`
///
/// Each example creates a heap with the options `values`, and compares the results of its kernels with the expected
/// ones. Returns the heap's statistics after everything was freed. Errors: those of `heap::create`; ResourceExhausted,
/// with the reason, if the heap ran out of memory; Internal if a launch failed or a result is wrong.

#include <cstdint>
#include <optional>
#include <orchard/device.cuh>
#include <orchard/heap.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard::examples {

/// Per-thread tables, once as plain blocks and once as arrays of lanes.
absl::StatusOr<statistics> per_thread_arrays(const options& values);
/// A stack for each lane.
absl::StatusOr<statistics> lane_stack(const options& values);
/// Pointers to a lane's array, followed by another warp and by another kernel.
absl::StatusOr<statistics> hand_over(const options& values);
/// A matrix whose rows, of any lengths, belong to threads.
absl::StatusOr<statistics> row_matrix(const options& values);

/// Runs a kernel with at least `threads` threads and waits for it. The grid has whole blocks, so that kernels check
/// their thread's number. Returns an error also if a request for memory failed since the heap was created: the kernel
/// itself goes on with null, and its results would only be called wrong.
template <class Kernel>
absl::Status run(heap& h, std::uint64_t threads, const Kernel& kernel) {
    const simt::launch_result done = simt::launch(h.executor(), simt::grid_for(threads), kernel);
    if (!done.ok) {
        return to_status(done);
    }
    const std::optional<failure> first = h.first_failure();
    return first.has_value() ? absl::ResourceExhaustedError(to_text(*first)) : absl::OkStatus();
}

}  // namespace orchard::examples
