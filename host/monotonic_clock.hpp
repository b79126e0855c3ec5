// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#pragma once

/// The clock by which the host measures its waits.
///
///     const absl::Time deadline = monotonic_now() + limit;
///     while (monotonic_now() < deadline) ...
///
/// `absl::Now` does not serve for this, for two reasons. It reads the wall clock, which jumps when somebody sets it.
/// And it takes a lock from time to time: a process that is forked while another thread holds that lock has a copy of
/// it that nobody releases, so that the first call in the forked process waits for ever.

#include <chrono>
#include <cstdint>

#include "absl/time/time.h"

namespace orchard {

/// Returns the time by the machine's monotonic clock, which never jumps. It counts from an epoch of its own, usually
/// the start of the machine: only differences between two results have a meaning. Takes no lock. Cost: some 25 ns.
inline absl::Time monotonic_now() {
    return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

/// Returns the same time in nanoseconds. For measurements: unlike `simt::clock_ns`, it is that of the machine in a
/// simulation, too, so that a measurement changes no schedule there.
inline std::uint64_t monotonic_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

}  // namespace orchard
