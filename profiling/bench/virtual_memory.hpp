// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The time of the driver's calls that commit memory, outside any heap. `orchard bench mailbox` measures with it
/// whether warps that wait for the host delay commits.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace orchard::bench {

/// Returns the microseconds of each of `times` commits (create, map, set access) of `bytes` of device memory into a
/// reserved range of the current GPU, by the host's monotonic clock. Each commit has addresses of its own and is
/// unmapped again outside the measured time; the reservation of addresses is not measured either. `bytes` is a multiple
/// of 2 MiB. Errors: the driver's own; FailedPrecondition in a build without CUDA, or with a driver without these
/// calls.
absl::StatusOr<std::vector<double>> time_commits(std::uint64_t bytes, int times);

}  // namespace orchard::bench
