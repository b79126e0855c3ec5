// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "device/simt/launch.cuh"

namespace orchard::detail {

/// What `heap::preload` does for `__global__` functions, whose types the library does not know: loads each of them now
/// on the executor's GPU. Nothing on the emulated device.
///
/// Errors: as `heap::preload`; the rest of the list is not loaded then. Cost: the runtime loads each kernel once.
absl::Status load_kernels(const simt::executor& on, std::span<const void* const> kernels);

}  // namespace orchard::detail
