// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The library's own kernels, launched by the host on the heap's own stream: `heap::trim`, `heap::validate`, and
/// `settle`, which both use.

#include "absl/status/status.h"
#include "device/simt/launch.cuh"
#include "device/state/heap_state.cuh"

namespace orchard::detail {

/// Loads the library's own kernels on the executor's GPU. Called before a heap starts its threads: to load a kernel
/// later could wait for a kernel that waits for the heap. Errors: the launch's own.
absl::Status preload_own_kernels(const simt::executor& on);

/// Retires empty slabs, returns the segment cache to the host, and waits until every request is answered. Kernels of
/// the application may run meanwhile and use the heap; it then ends after a bounded number of passes. Errors: the
/// launch's own.
absl::Status run_trim(const simt::executor& on, const device::heap_view& view);

/// Frees the blocks that the host has queued in the ring, and waits until every request is answered and its response
/// delivered. Errors: the launch's own.
absl::Status run_settle(const simt::executor& on, const device::heap_view& view);

/// Frees the blocks in the quarantine of a hardened heap, which finds those that were written after they were freed.
/// Does nothing in another heap. Errors: the launch's own.
absl::Status run_empty_quarantine(const simt::executor& on, const device::heap_view& view);

}  // namespace orchard::detail
