// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// `system_malloc_ref`: the `malloc` that a kernel has without Orchard, as a `device_allocator`: CUDA's on CUDA, that
/// of the C library on the emulated device.

#include <cstdint>
#include <cstdlib>

#include "device/published/device_allocator.cuh"
#include "device/simt/config.cuh"

namespace orchard {

/// The view of the system's heap. On CUDA its size is the limit `cudaLimitMallocHeapSize`, 8 MiB unless the program
/// sets it before its first kernel that allocates. Blocks are aligned to 16 B.
struct system_malloc_ref {
    /// Returns memory of at least `bytes`; null for 0 bytes, and if memory lacks.
    [[nodiscard]] ORCHARD_FN void* malloc(std::uint64_t bytes) const { return bytes == 0 ? nullptr : ::malloc(bytes); }
    ORCHARD_FN void free(void* p) const { ::free(p); }
};

static_assert(device::device_allocator<system_malloc_ref>);

}  // namespace orchard
