// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The processes in which cases run. The arena starts the program that it is part of with the hidden command
/// `arena-worker`, the allocator and its cases. The worker writes a line of JSON for each case:
///
///     {"case":"winter_9a/64","verdict":0,"detail":"","unit":"us","values":[12.3,4.5]}
///
/// A case whose worker ends without its line has crashed; one whose worker is late hangs. A new worker then runs the
/// cases behind it.

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "profiling/arena/task.hpp"

namespace orchard::arena {

inline constexpr const char* worker_command = "arena-worker";

/// What all cases of a call have in common.
struct conditions {
    simt::device_kind device = simt::device_kind::emulated;
    unsigned workers = 0;                       ///< threads of the emulated device; 0: as many as the machine has
    std::uint64_t memory = 0;                   ///< of each allocator, in bytes
    int repeats = 1;                            ///< timed repetitions
    absl::Duration limit;                       ///< of a case
    bool one_process = false;                   ///< an allocator's cases run in one process, until one crashes or hangs
    absl::Time until = absl::InfiniteFuture();  ///< cases that have not ended by then are `verdict::not_run`
};

/// Runs cases of one allocator in workers, in order, and passes on how each ended. `on_outcome` returns false to stop.
void run_in_workers(const std::string& allocator, const std::vector<arena_case>& cases, const conditions& with,
                    const std::function<bool(const arena_case&, const outcome&)>& on_outcome);

}  // namespace orchard::arena
