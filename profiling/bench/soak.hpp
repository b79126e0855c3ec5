// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The plans and counts of `orchard bench soak`, without kernels: arithmetic and checks on the host that tests can call
/// without a heap. `orchard bench storm` uses them, too.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "profiling/bench/soak_kernels.cuh"

namespace orchard::bench::soak {

/// The size of a run.
struct plan {
    std::uint32_t threads = 0;                   ///< of each launch; each has a table of slots
    std::uint32_t slots_each = 16;               ///< half of them are occupied most of the time
    std::uint64_t allocations = 0;               ///< in total; the last launch may exceed it
    size_mix sizes;                              ///< the distribution of requested sizes
    double launch_us = 250e3;                    ///< planned time of a launch
    absl::Duration limit = absl::Seconds(0.5);   ///< time after which the threads of a launch stop
    absl::Duration deadline = absl::Minutes(1);  ///< time after which a launch counts as hanging
};

/// The counts so far, over all threads and launches.
struct counts {
    std::uint64_t allocations = 0;  ///< blocks handed out
    std::uint64_t frees = 0;        ///< blocks that were checked and freed
    std::uint64_t nulls = 0;        ///< requests that failed
    std::uint64_t handed_over = 0;  ///< blocks laid on the board
    std::uint64_t bytes = 0;        ///< total size of the requested blocks
    std::uint64_t mismatches = 0;   ///< blocks that did not carry their tags
};

/// One launch of rounds.
struct sample {
    std::uint64_t allocations = 0;  ///< made by this launch
    double us = 0;                  ///< its kernel's time
};

/// Allocations for each microsecond, at the beginning and at the end. If a heap gets slower with use, the last one is
/// less.
struct tenths {
    double first = 0;
    double last = 0;
};

/// Returns the rates over the first and the last launches that made a tenth of all allocations; 0 if nothing was
/// measured. Whole launches are counted, so that each part is a tenth or a little more.
tenths rates_of_tenths(std::span<const sample> launches);

/// Returns the rounds of the next launch, from those of the last one and its time: at most four times as many, at least
/// one, and few enough that a run has about 50 launches. Otherwise a launch takes about `plan::launch_us`.
/// @param rounds  of the last launch, at least 1
/// @param us      its time; 0: unknown
std::uint32_t next_rounds(const plan& p, std::uint32_t rounds, double us);

/// Returns OK, or Internal with the number of blocks that did not carry their tags and a description of the first.
absl::Status status_of(const counts& c, const mismatch& first);

/// Returns OK, or Internal if a count of the heap at the end differs from `expected`.
absl::Status expect_count(const char* what, std::uint64_t found, std::uint64_t expected);

}  // namespace orchard::bench::soak
