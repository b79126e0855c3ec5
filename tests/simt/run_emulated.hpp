// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Runs a host-only function object on the emulated device, for tests whose kernels need not compile for CUDA.

#include "device/simt/launch.cuh"

namespace orchard::simt {

/// @param body called by every lane with its `thread_position`; lives until the launch has ended
template <class Body>
launch_result run_emulated(grid shape, const Body& body, unsigned workers = 2) {
    return emulated::run_grid(
        shape, [](const void* k, thread_position at) { (*static_cast<const Body*>(k))(at); }, &body, workers);
}

}  // namespace orchard::simt
