// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What an elastic backing needs of the machine: address ranges, physical memory, and what joins the two.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

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
/// It is the only way from a growing heap to the device: to grow, to grant, to decommit and to destroy a heap, nothing
/// but `reserve`, `create`, `map`, `set_access`, `unmap`, `destroy`, `unreserve` and `device_memory` is called. On CUDA
/// these are virtual-memory calls, which wait for no kernel and for no other thread's call. The others use streams,
/// which may have to wait until a running kernel ends: they are for the creation of a heap, and for what the host asks.
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
    /// Returns what will not work as expected on this machine: one line each, with the remedy.
    [[nodiscard]] virtual std::vector<std::string> warnings() const { return {}; }

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

    /// Returns true if no call touches this driver's memory any more: false after an `allocate`, `read` or `write` that
    /// ended at its deadline, until its work on the device is over. The destructor waits for that work;
    /// `detail::end_driver` (ended_drivers.hpp) does not. Makes no CUDA call.
    [[nodiscard]] virtual bool is_idle() const { return true; }

    /// Device memory of a fixed size: zero-filled, aligned to 256 B; given back with the driver. Errors:
    /// ResourceExhausted; DeadlineExceeded where running kernels keep it from being cleared, with the remedy.
    virtual absl::StatusOr<void*> allocate(std::size_t bytes) = 0;
    /// As `backing::allocate_host_visible`, `stream`, `read` and `write`. Errors of `read` and `write`:
    /// DeadlineExceeded where running kernels keep them from ending, with the remedy; such a `write` may still happen
    /// until `is_idle`.
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

/// CUDA's virtual-memory calls, for the calling thread's current GPU. `patience`: how long this call, and each later
/// `allocate`, `read` and `write`, waits for work on a stream. Errors: FailedPrecondition where the GPU or its driver
/// cannot map memory so, or in a build without CUDA; DeadlineExceeded after `patience`, with the remedy.
absl::StatusOr<std::unique_ptr<memory_driver>> make_cuda_driver(absl::Duration patience = absl::Seconds(10));

/// Ordinary memory for the emulated device: what is mapped without access, or not mapped, faults when it is touched.
std::unique_ptr<memory_driver> make_emulated_driver();

}  // namespace orchard
