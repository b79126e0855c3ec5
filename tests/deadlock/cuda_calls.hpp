// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard::test {

/// Calls of CUDA's that are under test, each with nothing else of CUDA beside it; of the calling thread's current GPU.
/// Errors: the runtime's own.

/// `cudaMalloc`
absl::StatusOr<void*> call_malloc(std::uint64_t bytes);
/// `cudaFree`
absl::Status call_free(void* memory);
/// `cudaMemcpy` from the host to the device: on the legacy default stream.
absl::Status call_memcpy(void* to, const void* from, std::uint64_t bytes);

}  // namespace orchard::test
