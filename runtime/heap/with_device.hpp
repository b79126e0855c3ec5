// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A call for one GPU, in sources that include no header of CUDA.

#include <functional>

#include "device/simt/launch.cuh"

namespace orchard {

/// Calls `call` while the GPU of `on` is the calling thread's current one, and restores the previous GPU then. On the
/// emulated device, and in a build without CUDA, it only calls. If the GPU cannot be made current, the current one
/// stays so during the call. What `call` throws passes through. Cost: three calls of the CUDA runtime.
void with_device(const simt::executor& on, const std::function<void()>& call);

}  // namespace orchard
