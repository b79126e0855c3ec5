// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The machine as an elastic backing uses it: address ranges, physical memory, and mappings between the two.
///
///     reserve       |. . . . . . . . . . . . . . . .|     addresses, once for the whole range
///     create         [####]                               physical memory, not at any address
///     map           |. . [####] . . . . . . . . . . |     both joined; no access yet
///     set_access    |. . [####] . . . . . . . . . . |     kernels may use the memory
///     unmap, destroy, unreserve                           undo these in reverse order

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace orchard {

/// The location of physical memory.
enum class memory_tier : std::uint8_t {
    device,  ///< the GPU's own memory
    host,    ///< the host's memory, which kernels reach over the bus: the spill tier
};

/// A copy between two addresses of a driver's memory, in either tier.
struct memory_copy {
    char* to = nullptr;
    const char* from = nullptr;
    std::size_t bytes = 0;
};

/// Physical memory that a driver has created. Only the driver that created it understands the number.
enum class memory_handle : std::uint64_t {};

/// The calls for virtual memory, and the other calls that a heap needs. Sizes and addresses are multiples of
/// `granularity`.
///
/// A growing heap reaches the device only through this class. To grow, to provide segments, to decommit and to destroy
/// a heap, Orchard calls only `reserve`, `create`, `map`, `set_access`, `unmap`, `destroy`, `unreserve` and
/// `device_memory`. On CUDA these are virtual-memory calls, which wait for no kernel and for no other thread's call.
/// The other functions use streams, which may have to wait until a running kernel ends. They serve the creation of a
/// heap, and queries by the host.
///
/// Threads: any, at the same time. Kernels may run meanwhile.
class memory_driver {
public:
    memory_driver() = default;
    memory_driver(const memory_driver&) = delete;
    memory_driver& operator=(const memory_driver&) = delete;
    virtual ~memory_driver() = default;

    /// Returns the number of bytes of which sizes and addresses are multiples: a power of two, at most 2 MiB.
    [[nodiscard]] virtual std::size_t granularity() const = 0;
    /// Returns true if there is a host tier.
    [[nodiscard]] virtual bool has_host_tier() const = 0;
    /// The free and total bytes of the device's memory at the time of the call. Other processes may change the amount
    /// at once.
    struct amounts {
        std::uint64_t free = 0;
        std::uint64_t total = 0;
    };
    /// Returns these amounts. Errors: the driver's own. Cost: a call of the driver.
    virtual absl::StatusOr<amounts> device_memory() = 0;
    /// Returns the known problems on this machine: one line each, with the remedy.
    [[nodiscard]] virtual std::vector<std::string> warnings() const { return {}; }

    /// Returns addresses without memory, aligned to `alignment` (a power of two). At least `granularity` addresses on
    /// either side of them stay without memory as well, so that an access beyond either end is a fault and not an
    /// access to other memory. Errors: ResourceExhausted with the size.
    virtual absl::StatusOr<char*> reserve(std::size_t bytes, std::size_t alignment) = 0;
    /// Releases addresses exactly as they were reserved; no memory may be mapped there. It cannot report an error:
    /// addresses that are not released are lost until the process ends.
    virtual void unreserve(char* at, std::size_t bytes) = 0;

    /// Returns physical memory of a tier, with arbitrary content. Errors: ResourceExhausted if the tier has no more,
    /// which is the one error after which the caller tries less or the other tier; FailedPrecondition if there is no
    /// such tier; Internal with the driver's text.
    virtual absl::StatusOr<memory_handle> create(std::size_t bytes, memory_tier tier) = 0;
    /// Gives physical memory back to the machine. It must not be mapped any more. `bytes` is the size of its creation.
    virtual void destroy(memory_handle memory, std::size_t bytes) = 0;
    /// Maps all of `memory` at the addresses; no access is allowed before `set_access`. The addresses must be reserved
    /// and not mapped. Memory may be mapped at several addresses. Errors: the driver's own; nothing is mapped then.
    virtual absl::Status map(char* at, std::size_t bytes, memory_handle memory) = 0;
    /// Lets device code read and write the memory that is mapped at [at, at + bytes). On CUDA this is the costly part
    /// of a commit: it waits until the GPU's outstanding reads of host memory have ended (docs/limits.md). That is why
    /// waiting groups poll device memory. Errors: the driver's own.
    virtual absl::Status set_access(char* at, std::size_t bytes) = 0;
    /// Undoes a `map`, with the same addresses and size; they must not be in use. The memory keeps its contents, and
    /// may be mapped again. Errors: the driver's own; the memory is still mapped then, and must not be destroyed.
    virtual absl::Status unmap(char* at, std::size_t bytes) = 0;

    /// Maps memory and makes it accessible: `map` and `set_access`. Errors: those of both; the memory is not mapped
    /// then.
    absl::Status join(char* at, std::size_t bytes, memory_handle memory) {
        if (absl::Status s = map(at, bytes, memory); !s.ok()) {
            return s;
        }
        absl::Status status = set_access(at, bytes);
        if (!status.ok()) {
            (void)unmap(at, bytes);  // the first error is the one to report
        }
        return status;
    }

    /// Returns true if no call accesses this driver's memory any more. Returns false while copies of `begin_copies` are
    /// under way, and after an `allocate`, `read` or `write` that ended at its deadline, until its work on the device
    /// is complete. The destructor waits for that work; `detail::end_driver` (ended_drivers.hpp) does not. Makes no
    /// CUDA call.
    [[nodiscard]] virtual bool is_idle() const { return true; }

    /// Returns device memory of a fixed size: zero-filled, aligned to 256 B; freed with the driver. Errors:
    /// ResourceExhausted; DeadlineExceeded, with the remedy, if running kernels delay the clearing.
    virtual absl::StatusOr<void*> allocate(std::size_t bytes) = 0;
    /// As `backing::allocate_host_visible`, `stream`, `read` and `write`. Errors of `read` and `write`:
    /// DeadlineExceeded, with the remedy, if running kernels delay them. Such a `write` may still take effect until
    /// `is_idle`. A caller that wants to use the memory for something else must therefore wait for a later call that
    /// succeeds: calls take effect in order.
    virtual absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) = 0;
    [[nodiscard]] virtual void* stream() const = 0;
    virtual absl::Status read(void* to, const void* from, std::size_t bytes) = 0;
    virtual absl::Status write(void* to, const void* from, std::size_t bytes) = 0;

    /// The number of queues of copies. Two, so that one copies while the memory of the other is being mapped, and so
    /// that both directions of the bus are in use.
    static constexpr int copy_queues = 2;
    /// Begins copies on a queue, which must have none under way, and returns at once; the copies of one call are made
    /// in order. All addresses must stay mapped until `finish_copies` returns OK. Errors: DeadlineExceeded if copies
    /// are under way on the queue. Cost on CUDA: a switch of threads, and 4 us for each copy on the queue's own thread.
    virtual absl::Status begin_copies(int queue, std::vector<memory_copy> copies) = 0;
    /// Waits for the copies of a queue, and returns how they ended; OK if there are none. Errors: DeadlineExceeded,
    /// with the remedy, if running kernels delay them: they continue, and the call may be repeated; the driver's own.
    virtual absl::Status finish_copies(int queue) = 0;
    /// Waits until the work that the application has queued on its stream (a `cudaStream_t`; null: the default stream)
    /// has ended, however long that takes. Errors: the driver's own.
    virtual absl::Status finish_stream(void* stream) = 0;
};

/// Returns the free and total memory of the calling thread's current GPU. Errors: FailedPrecondition in a build without
/// CUDA; the runtime's own.
absl::StatusOr<memory_driver::amounts> cuda_device_memory();

/// Returns true if CUDA loads kernels when the program starts (`CUDA_MODULE_LOADING=EAGER`) and not at their first
/// launch, which can wait for running kernels. Returns false if CUDA does not report it, and in a build without CUDA.
bool cuda_loads_kernels_eagerly();

/// Returns a driver that makes CUDA's virtual-memory calls, for the calling thread's current GPU. `patience`: the time
/// for which this call, and each later `allocate`, `read` and `write`, waits for work on a stream. Errors:
/// FailedPrecondition if the GPU or its driver does not support such mappings, or in a build without CUDA;
/// DeadlineExceeded, with the remedy, after `patience`.
absl::StatusOr<std::unique_ptr<memory_driver>> make_cuda_driver(absl::Duration patience = absl::Seconds(10));

/// Returns a driver of ordinary memory for the emulated device. An access to memory that is not mapped, or is mapped
/// without access, faults.
std::unique_ptr<memory_driver> make_emulated_driver();

}  // namespace orchard
