// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "absl/status/status.h"
#include "device/simt/launch.cuh"

namespace orchard::test {

/// Makes a graph of a few nodes, instantiates it, launches it on the executor's stream and waits. Errors: CUDA's own;
/// FailedPrecondition in a build without CUDA.
absl::Status run_a_graph(const simt::executor& on);

}  // namespace orchard::test
