// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Loading of kernels before they are launched.

#include <span>

#include "absl/status/status.h"
#include "device/simt/launch.cuh"

namespace orchard::detail {

/// Loads each of `kernels`, which are `__global__` functions, on the executor's GPU. Implements `heap::preload` for
/// functions whose types the library does not know. Does nothing on the emulated device.
///
/// Errors: those of `heap::preload`; the rest of the list is not loaded then. Cost: the runtime loads each kernel once.
absl::Status load_kernels(const simt::executor& on, std::span<const void* const> kernels);

}  // namespace orchard::detail
