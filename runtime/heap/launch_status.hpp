// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The result of a launch as a status.

#include "absl/status/status.h"
#include "device/simt/launch.cuh"

namespace orchard {

/// Returns the status of a launch: `OkStatus`, or InternalError with the launch's own text. The interface of the seam
/// (`device/simt`) does without Abseil, since kernels include it, and therefore returns a struct.
inline absl::Status to_status(const simt::launch_result& result) {
    return result.ok ? absl::OkStatus() : absl::InternalError(result.error);
}

}  // namespace orchard
