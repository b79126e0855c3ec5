// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Memory that the UVM driver moves between host and GPU: what a managed backing needs of it. What the driver does and
/// why: docs/uvm.md.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {

/// What the driver is told of a heap's memory.
enum class managed_advice : std::uint8_t {
    first_touch_gpu,  ///< preferred location: the GPU; the first touch populates a whole VA block there
    cpu_resident,     ///< preferred location: the host, accessed by the GPU over the bus; nothing moves
    none,             ///< what faults moves
};

/// One range of managed memory. Addresses and sizes are whole segments (2 MiB, aligned so), so that no VA block is
/// truncated.
///
/// Threads: any, side by side. Kernels may run meanwhile.
class managed_memory {
public:
    managed_memory() = default;
    managed_memory(const managed_memory&) = delete;
    managed_memory& operator=(const managed_memory&) = delete;
    /// Gives the memory back.
    virtual ~managed_memory() = default;

    /// The range; asked for once. Errors: ResourceExhausted with the size; the system's own words.
    virtual absl::StatusOr<char*> allocate(std::size_t bytes) = 0;
    /// Advises the driver of [at, at + bytes). Errors: the driver's own.
    virtual absl::Status advise(char* at, std::size_t bytes, managed_advice what) = 0;
    /// Moves [at, at + bytes) there, and waits for it. Not necessarily whole segments. Errors: the driver's own.
    virtual absl::Status prefetch(char* at, std::size_t bytes, memory_tier to) = 0;
    /// Whether `discard` does anything.
    [[nodiscard]] virtual bool can_discard() const = 0;
    /// Gives the contents up, so that they are written back nowhere, and waits for it. Errors: the driver's own.
    virtual absl::Status discard(char* at, std::size_t bytes) = 0;
};

/// `cudaMallocManaged` for the calling thread's current GPU. Errors: FailedPrecondition where the GPU has no managed
/// memory or host and GPU cannot use it at one time, or in a build without CUDA; the runtime's own.
absl::StatusOr<std::unique_ptr<managed_memory>> make_cuda_managed_memory();

/// Ordinary memory for the emulated device: it moves nowhere; what is discarded reads as zeros.
std::unique_ptr<managed_memory> make_emulated_managed_memory();

}  // namespace orchard
