// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The model of the UVM driver's paging, for an application of which a pass was recorded: rows of managed heaps that
/// may not be measured, since they are larger than `managed_limit`.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "profiling/apps/app.hpp"
#include "uvm/model/result.hpp"

namespace orchard::apps {

/// Returns the model's prediction of the recorded pass on an H200: all arrays are on the host before, and no move is
/// asked for. The trace has one access for each 64 KiB that a lane comes to; further accesses of the lane to them
/// cost nothing here.
/// @param trace  as `trace_log::result` has it, of all warps
/// @param budget  bytes of the GPU's memory; unlimited from `bytes` on
/// @param bytes  of all arrays
/// Errors: those of `uvm_model::trace` and of the model.
absl::StatusOr<uvm_model::result> predict(const std::string& trace, std::uint64_t budget, std::uint64_t bytes);

/// A run whose first pass was recorded, and what the model predicts of that pass; none where the run failed.
struct predicted {
    outcome found;
    std::optional<uvm_model::result> counts;
};
/// Returns the prediction for the first pass of an application on a GPU of `budget` bytes. The pass runs in `h`, and
/// all of its warps are recorded. Where the record has no room for all accesses, the run is repeated with the part of
/// its work that has, at most three times; if none has, that is the run's error. Errors: those of `run_app` and
/// `predict`.
absl::StatusOr<predicted> run_and_predict(heap& h, const app& a, job j, std::uint64_t budget);

}  // namespace orchard::apps
