// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs applications on heaps of several backings, at several sizes and in several layouts, and makes a row of each
/// run.
///
///     for each backing: one heap, whose memory on the host is thus made once
///         for each size, ascending, so that memory is committed only where it is needed
///             for each layout, for each application: a run, unless a row of it is there
///
/// A run does no greater part of its work than the earlier ones of the same application and size did: the limit of time
/// that the first of them met so holds for all, and layouts compare.
///
/// A managed heap that would be larger than `managed_limit` is not made. The first pass is recorded in an elastic heap
/// instead, and the row has the model's prediction for a GPU with this heap's budget: `by` is then `model`.
///
/// A row is a flat JSON object. Its first members say what was run; of a run whose results were wrong, or for which the
/// memory was too little, `error` has the reason.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "profiling/apps/app.hpp"
#include "runtime/options/options.hpp"

namespace orchard::apps {

/// What is run: each application with each of the lists.
struct matrix {
    std::vector<app> what;
    options heap;  ///< of all heaps, but for the backing
    std::vector<backing_option> backings;
    std::vector<std::uint64_t> bytes;
    std::vector<layout> layouts;
    job each;                                          ///< of all runs, but for bytes and layout
    std::function<absl::Status(const outcome&)> done;  ///< called after each run; may be empty
};

/// Called with all rows so far when there is another one. Errors end the runs.
using row_sink = std::function<absl::Status(const nlohmann::ordered_json& rows)>;

/// Runs what has no row in `rows`, an array, and adds the new rows to it. Rows with an error do not count, and are
/// replaced.
///
/// Errors: those of `heap::create` and `run_app`; Internal if a run has an error, when all others have been run: the
/// text has their number, and the first one's.
absl::Status run_matrix(const matrix& m, nlohmann::ordered_json& rows, const row_sink& tell);

/// Returns the capacity of a heap for arrays of `bytes` in any layout.
std::uint64_t capacity_for(std::uint64_t bytes);

}  // namespace orchard::apps
