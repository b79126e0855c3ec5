// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs of a shower: in a heap, in a fixed pool, and on the host.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/graph/host_memory.hpp"
#include "examples/particles/shower.cuh"
#include "runtime/cli/progress.hpp"
#include "runtime/heap/heap.hpp"

namespace orchard::examples {

struct shower_options {
    std::uint64_t primaries = 64;
    shower_rule rule{.energy_kev = 100'000};
    std::uint64_t track_bytes = 1024;  ///< a multiple of 16, at least 48: a particle and its records
    std::uint32_t steps = 4;           ///< of each particle in one kernel
};

/// The state after one kernel.
struct shower_pass {
    std::uint64_t alive = 0;         ///< tracks
    std::uint64_t device_bytes = 0;  ///< committed on the device: by the heap, or the pool
    std::uint64_t host_bytes = 0;    ///< committed on the host
    std::uint64_t moved_bytes = 0;   ///< between the two before this kernel
    double kernel_us = 0;
};

struct shower_result {
    shower_totals totals;
    std::vector<shower_pass> passes;
    bool is_complete = false;   ///< every particle has ended
    std::uint64_t refused = 0;  ///< requests without memory, of the last pass
    std::uint64_t wrong = 0;    ///< records that another particle has written over
    std::uint64_t peak_alive = 0;
    double seconds = 0;  ///< of all passes, with what the host does between them
    double kernel_seconds = 0;
    std::string why;  ///< the heap's report of its first failure, if it had one
};

/// Returns the run of a shower whose tracks are blocks of `h`, which is empty before and afterwards. If memory of the
/// heap moves, `heap::migrate` is called between two kernels. The run ends with the first request that finds no memory;
/// this is a result. Errors: those of the device, and of moves.
absl::StatusOr<shower_result> run_in_heap(heap& h, const shower_options& options, command_line::progress& bar);

/// Returns the run of the same shower in a pool of `slots` tracks in the device's plain memory. Errors: those of the
/// device; ResourceExhausted without memory for the pool; InvalidArgument for 2^32 slots or more.
absl::StatusOr<shower_result> run_in_pool(const simt::executor& on, std::uint64_t slots, const shower_options& options,
                                          command_line::progress& bar);

/// What a plain loop on the host says of a shower.
struct host_shower {
    shower_totals totals;
    /// Most tracks at once, if those that end in a kernel are there to its end: at least what the heap must hold.
    std::uint64_t most_tracks = 0;
};

/// Returns the sums of the same shower by a plain loop, on all cores of the host.
host_shower run_on_host(const shower_options& options);

/// Returns ResourceExhausted, with the bytes and the remedy, if the host has no memory for a shower of `tracks` tracks
/// at once: for those beyond the GPU's budget, or, on the emulated device, for all within the budgets of `heap`, and
/// for the pool after it. Memory is only taken as it is used, so that an operating system that overcommits memory would
/// end the program in the middle of the run.
absl::Status check_shower_memory(const shower_options& options, std::uint64_t tracks, const orchard::options& heap,
                                 simt::device_kind device, std::uint64_t pool_slots,
                                 std::uint64_t have = available_host_bytes());

}  // namespace orchard::examples
