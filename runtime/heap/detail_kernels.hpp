// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "absl/status/status.h"
#include "device/heap_state.cuh"
#include "device/simt/launch.cuh"

namespace orchard::detail {

/// Loads the library's own kernels.
absl::Status preload_own_kernels(const simt::executor& on);

/// Retires empty slabs, returns the segment cache to the host, and waits until every request is answered.
absl::Status run_trim(const simt::executor& on, const device::heap_view& view);

/// Waits until every request is answered and its response delivered.
absl::Status run_settle(const simt::executor& on, const device::heap_view& view);

}  // namespace orchard::detail
