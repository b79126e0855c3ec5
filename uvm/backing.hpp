// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Where a heap's memory comes from.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "uvm/geometry.hpp"

namespace orchard {

/// One super chunk and the metadata beside it. Everything that it handed out is released with it.
///
/// Threads: `commit` is called by the growth thread, the others by any thread, one at a time each.
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
    virtual absl::Status commit(segment_run run) = 0;

    /// Device memory for metadata: zero-filled, aligned to 256 B. Errors: ResourceExhausted with the size.
    virtual absl::StatusOr<void*> allocate_metadata(std::size_t bytes) = 0;
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

}  // namespace orchard
