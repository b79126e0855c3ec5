// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace orchard::bench {

/// Returns the microseconds of each of `times` commits (create, map, set access) of `bytes` of device memory into a
/// reserved range of the current GPU; each is unmapped again outside the measured time. Errors: the driver's own;
/// FailedPrecondition in a build without CUDA.
absl::StatusOr<std::vector<double>> time_commits(std::uint64_t bytes, int times);

}  // namespace orchard::bench
