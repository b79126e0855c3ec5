// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Where a heap's memory comes from.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/geometry.hpp"
#include "uvm/memory/managed_memory.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {

/// How a commit ended.
struct [[nodiscard]] commit_outcome {
    absl::Status status;
    memory_tier tier = memory_tier::device;     ///< where it succeeded: in which memory
    failure_reason why = failure_reason::none;  ///< where not: a budget that is spent, or `commit_failed`

    [[nodiscard]] bool ok() const { return status.ok(); }
};

/// What a backing has taken of the machine, and what it may.
struct memory_use {
    std::uint64_t device_bytes = 0;  ///< committed, of the device's memory
    std::uint64_t host_bytes = 0;    ///< committed, of the spill tier
    std::uint64_t metadata_bytes = 0;
    std::uint64_t device_budget = 0;  ///< that `device_bytes` stay within
    std::uint64_t host_budget = 0;
};

/// One super chunk and the metadata beside it. Everything that it handed out is released with it.
///
/// Threads: `commit`, `decommit` and `commit_metadata` are called by one thread (after creation the growth thread),
/// `use` by any at any time, the others by any thread, one at a time each.
class backing {
public:
    backing() = default;
    backing(const backing&) = delete;
    backing& operator=(const backing&) = delete;
    virtual ~backing() = default;

    /// First byte of the super chunk, aligned to a segment; as the device sees it.
    [[nodiscard]] virtual char* base() const = 0;
    /// Segments of the super chunk.
    [[nodiscard]] virtual std::uint32_t segments() const = 0;
    /// Segments that are committed from the start: [0, n).
    [[nodiscard]] virtual std::uint32_t committed_at_start() const = 0;

    /// Gives a run of segments physical memory. May be slow. Errors: the system's own words, with the size.
    virtual commit_outcome commit(segment_run run) = 0;
    /// Whether `decommit` does anything.
    [[nodiscard]] virtual bool can_decommit() const { return false; }
    /// Takes the physical memory of a run back, exactly as it was committed; nobody uses it. May be slow. Errors:
    /// FailedPrecondition where it was not committed so, or where memory cannot be taken back.
    virtual absl::Status decommit(segment_run run);
    /// Whether what nobody has is better decommitted at once, as its contents would be moved about for nothing. Extents
    /// are single segments then.
    [[nodiscard]] virtual bool decommits_at_once() const { return false; }
    /// Moves committed memory there, and waits for it. Errors: FailedPrecondition where memory does not move; the
    /// driver's.
    virtual absl::Status prefetch(void* at, std::size_t bytes, memory_tier to);

    /// Returns how many bytes of the device's memory are free now, for all processes together; the largest number where
    /// that is not known. Called by the thread that commits. Cost: a call of the driver, some 50 us.
    virtual std::uint64_t free_device_bytes() { return ~std::uint64_t{0}; }
    /// What it has taken of the machine. Any thread, at any time.
    [[nodiscard]] virtual memory_use use() const = 0;
    /// Returns what will not work as expected on this machine: one line each, with the remedy.
    [[nodiscard]] virtual std::vector<std::string> warnings() const { return {}; }

    /// Device memory for metadata: zero-filled, aligned to 256 B. Errors: ResourceExhausted with the size.
    virtual absl::StatusOr<void*> allocate_metadata(std::size_t bytes) = 0;
    /// Addresses for metadata of which a part will do for long: as `allocate_metadata`, but nothing may be touched
    /// before `commit_metadata`, and it may hold anything then, unless `zeroes_all`.
    virtual absl::StatusOr<void*> reserve_metadata(std::size_t bytes) { return allocate_metadata(bytes); }
    [[nodiscard]] virtual bool zeroes_all() const { return true; }
    /// Whether metadata is committed at an address that was reserved.
    [[nodiscard]] virtual bool has_metadata(const void* /*at*/) { return true; }
    /// Makes [at, at + bytes) of what was reserved memory, if it is none yet; it stays so. `read` finds zeros where
    /// there is none yet.
    virtual absl::Status commit_metadata(void* /*at*/, std::size_t /*bytes*/) { return absl::OkStatus(); }
    /// Memory that host and device both read and write while kernels run: zero-filled, aligned to 4 KiB.
    virtual absl::StatusOr<void*> allocate_host_visible(std::size_t bytes) = 0;

    /// The stream (a `cudaStream_t`) for work that must not wait for the application's; null on the emulated device.
    [[nodiscard]] virtual void* stream() const = 0;

    /// Copies out of device memory, beside running kernels. Cost on CUDA: a copy on a stream of its own.
    virtual absl::Status read(void* to, const void* from, std::size_t bytes) = 0;
    /// Writes up to 4 KiB of device memory, beside running kernels.
    virtual absl::Status write(void* to, const void* from, std::size_t bytes) = 0;
};

/// Ordinary memory, for the emulated device: `capacity` bytes (rounded down to segments) reserved without physical
/// memory; committing makes a run accessible, so that touching what is not committed faults.
/// Errors: ResourceExhausted where the address space does not have that much.
absl::StatusOr<std::unique_ptr<backing>> make_emulated_backing(std::uint64_t capacity);

/// One `cudaMalloc` of `capacity` bytes (rounded down to segments) on the calling thread's current GPU, all committed
/// from the start. The mailbox's host part is pinned memory.
/// Errors: ResourceExhausted with what is free; FailedPrecondition in a build without CUDA; the runtime's own words.
absl::StatusOr<std::unique_ptr<backing>> make_cuda_backing(std::uint64_t capacity);

/// The whole segments of memory that the caller supplies, device memory or what kernels reach otherwise; it must
/// outlive the backing, and is not given back. Metadata and the mailbox come from `driver`.
/// Errors: InvalidArgument where it holds no whole segment.
absl::StatusOr<std::unique_ptr<backing>> make_fixed_backing(std::unique_ptr<memory_driver> driver, void* memory,
                                                            std::uint64_t bytes);

/// Sizes of an elastic backing, in bytes.
struct elastic_shape {
    std::uint64_t range = 0;          ///< of the super chunk, rounded down to segments; addresses only
    std::uint64_t device_budget = 0;  ///< of user memory on the device, at most
    std::uint64_t host_budget = 0;    ///< of user memory on the host, which is used once the device's is spent
};

/// Addresses for `shape.range` bytes, given memory extent by extent through `driver`: on the device within its budget
/// and while it has any, beyond that on the host. Nothing but metadata is committed at first.
/// Errors: InvalidArgument for a range of more than `max_segments` segments or under one; the driver's.
absl::StatusOr<std::unique_ptr<backing>> make_elastic_backing(std::unique_ptr<memory_driver> driver,
                                                              const elastic_shape& shape);

/// What a managed backing is to be.
struct managed_shape {
    std::uint64_t bytes = 0;  ///< rounded down to segments
    managed_advice advice = managed_advice::first_touch_gpu;
    bool prefetch = true;                 ///< to the GPU, on commit; not where memory stays on the host
    bool discard = true;                  ///< on decommit
    bool allow_oversubscription = false;  ///< more than the device has free
};

/// Memory that the UVM driver moves. Metadata and the mailbox come from `driver`, and do not move.
/// Errors: InvalidArgument for less than a segment; ResourceExhausted with the numbers for more than the device has
/// free, unless that is allowed; those of `driver` and `memory`.
absl::StatusOr<std::unique_ptr<backing>> make_managed_backing(std::unique_ptr<memory_driver> driver,
                                                              std::unique_ptr<managed_memory> memory,
                                                              const managed_shape& shape);

}  // namespace orchard
