// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// One row of `orchard oversubscribe`: measured in a heap, or predicted by the model of the UVM driver.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "profiling/oversubscribe/runs.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::oversubscribe {

/// What one row is about.
struct row_subject {
    pattern which;  ///< of no meaning with an application
    layout how;
    double data;  ///< in device budgets
    way by;
    std::uint64_t bytes;                     ///< of data
    std::uint32_t set_seed;                  ///< chooses the segments of the working set
    const apps::app* application = nullptr;  ///< runs in place of a pattern
};

inline constexpr std::uint64_t stride_bytes = 64 << 10;

/// Arrays: their number, the elements of each, and the accesses of a thread in a pass.
struct row_shape {
    std::uint64_t arrays;
    std::uint64_t elements;
    std::uint64_t steps;
};
/// Returns the shape of a row. The arrays of working-set are segments.
row_shape shape_of(const plan& p, const row_subject& of);

/// Returns the keys of `row_axes`.
row axes_of(const row_subject& of);

/// What was measured, of a pattern or of an application.
struct measurement {
    std::uint64_t bytes = 0;  ///< of the data
    std::vector<double> pass_ms;
    double moves_ms = 0;  ///< of all moves
    statistics before;    ///< the passes; `after`: likewise
    statistics after;
    double allocate_ms = 0;
    double fill_ms = 0;
    std::uint64_t nulls = 0;
    std::uint64_t wrong = 0;
};
/// Returns the row of a measurement.
row row_of(const plan& p, const row_subject& of, const measurement& m);

/// Returns a row that is measured in `in`, which is empty before and afterwards. Errors: those of launches and of the
/// heap.
absl::StatusOr<row> measure(heap& in, const plan& p, const row_subject& of);

/// Returns the run of an application that a row is about.
apps::job job_of(const plan& p, const row_subject& of);
/// The same for an application, by `apps::run_app`.
absl::StatusOr<row> measure_application(heap& in, const plan& p, const row_subject& of);

/// Returns the model's prediction of the first pass over managed memory: for 1/16 of the threads of a pattern, times
/// 16, as the driver services faults one after the other; of graph-walk for fewer, where the graph would have too many
/// edges. Errors: those of the model.
absl::StatusOr<row> model_row(const plan& p, const row_subject& of);
/// The same for an application: of the pass that is recorded in `in`, or of the part of it that the record has room
/// for. Errors: those of `apps::run_and_predict`.
absl::StatusOr<row> model_row_of_application(heap& in, const plan& p, const row_subject& of);

}  // namespace orchard::oversubscribe
