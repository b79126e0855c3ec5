// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The published random walks over a flat pool, as the paper measures them, compared with its equations
/// (random_walk_theory.hpp). Steps are counted instead of time: except for scatter they are the same on every machine.
/// `orchard bench walks` prints these rows; they are also the last part of `orchard bench pages`.

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "profiling/bench/bench.hpp"

namespace orchard::bench {

/// Returns rows of three kinds, distinguished by `what`.
///
/// `walk`: `threads` (N) each take one of `pages` (T), of which `free` (A) are free at first, spread at random. `tas`:
/// mean of the threads' steps; `was`: mean over warps of the greatest of their lanes. `equation`: the equation of
/// `predicted`, for `tas`; `bound`: the bound for `was`; `holds`: whether `tas` is within 5 % of the one and `was`
/// below the other. For walks by words, the row also has predictions that do not assume that a step's word is filled
/// evenly (`by_words`, `bound_by_words`). `queue`: the same numbers for a queue, equation (1); not measured. `theorem
/// 1`, `theorem 2`: their ratios, whose limit for A -> N should be 1.
///
/// T is 2^20 on CUDA, 2^14 on the emulated device, 2^12 with `quick`. Free shares are 50, 10, 1 and 0.5 %; N goes from
/// T / 1024 up to the last multiple of 32 below A. The default policy takes no part, because its threads do not draw
/// random pages. Errors: the device's own; Internal if two threads got one page, or one got none.
absl::StatusOr<nlohmann::ordered_json> measure_walks(const settings& s);

}  // namespace orchard::bench
