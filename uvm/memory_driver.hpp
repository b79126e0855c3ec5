// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What an elastic backing needs of the machine: address ranges, physical memory, and what joins the two.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace orchard {

/// Where physical memory lies.
enum class memory_tier : std::uint8_t {
    device,  ///< the GPU's own
    host,    ///< the machine's, which kernels reach over the bus: the spill tier
};

/// Physical memory that a driver has created.
enum class memory_handle : std::uint64_t {};

/// The calls for virtual memory, and what a heap needs besides. Sizes and addresses are multiples of `granularity`.
///
/// Threads: any, side by side. Kernels may run meanwhile.
class memory_driver {
public:
    memory_driver() = default;
    memory_driver(const memory_driver&) = delete;
    memory_driver& operator=(const memory_driver&) = delete;
    virtual ~memory_driver() = default;

    /// Bytes of which sizes and addresses are multiples: a power of two, at most 2 MiB.
    [[nodiscard]] virtual std::size_t granularity() const = 0;
    /// Whether there is a host tier.
    [[nodiscard]] virtual bool has_host_tier() const = 0;
    /// Free and total bytes of the device's memory now.
    struct amounts {
        std::uint64_t free = 0;
        std::uint64_t total = 0;
    };
    virtual absl::StatusOr<amounts> device_memory() = 0;

    /// Addresses without memory, aligned to `alignment` (a power of two). Errors: ResourceExhausted with the size.
    virtual absl::StatusOr<char*> reserve(std::size_t bytes, std::size_t alignment) = 0;
    /// Gives addresses back, exactly as they were reserved; nothing is mapped there.
    virtual void unreserve(char* at, std::size_t bytes) = 0;

    /// Physical memory. Errors: ResourceExhausted where the tier has no more; Internal with the driver's words.
    virtual absl::StatusOr<memory_handle> create(std::size_t bytes, memory_tier tier) = 0;
    virtual void destroy(memory_handle memory, std::size_t bytes) = 0;
    /// Joins `memory`, all of it, with addresses; nobody may use them before `set_access`.
    virtual absl::Status map(char* at, std::size_t bytes, memory_handle memory) = 0;
    /// Lets device code read and write what is mapped at [at, at + bytes).
    virtual absl::Status set_access(char* at, std::size_t bytes) = 0;
    /// Takes back a `map`, exactly as it was done; nobody may use the addresses.
    virtual absl::Status unmap(char* at, std::size_t bytes) = 0;

    /// Device memory of a fixed size: zero-filled, aligned to 256 B; given back with the driver.
    virtual absl::StatusOr<void*> allocate(std::size_t bytes) = 0;
    /// As `backing::allocate_host_visible`, `stream`, `read` and `write`.
    virtual absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) = 0;
    [[nodiscard]] virtual void* stream() const = 0;
    virtual absl::Status read(void* to, const void* from, std::size_t bytes) = 0;
    virtual absl::Status write(void* to, const void* from, std::size_t bytes) = 0;
};

/// Free and total memory of the calling thread's current GPU. Errors: FailedPrecondition in a build without CUDA; the
/// runtime's own.
absl::StatusOr<memory_driver::amounts> cuda_device_memory();

/// Whether CUDA loads kernels when the program starts, and not at their first launch, which can wait for kernels that
/// run (`CUDA_MODULE_LOADING=EAGER`). False where it does not say, and in a build without CUDA.
bool cuda_loads_kernels_eagerly();

/// CUDA's virtual-memory calls, for the calling thread's current GPU. Errors: FailedPrecondition where the GPU or its
/// driver cannot map memory so, or in a build without CUDA.
absl::StatusOr<std::unique_ptr<memory_driver>> make_cuda_driver();

/// Ordinary memory for the emulated device: what is mapped without access, or not mapped, faults when it is touched.
std::unique_ptr<memory_driver> make_emulated_driver();

}  // namespace orchard
