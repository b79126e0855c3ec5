// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Memory that the UVM driver moves between host and GPU, as a managed backing uses it. docs/uvm.md describes the
/// driver's behaviour and its reasons.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "uvm/geometry/managed_advice.hpp"
#include "uvm/memory/memory_driver.hpp"

namespace orchard {

/// One range of managed memory. Addresses and sizes are whole segments (2 MiB, aligned to 2 MiB), so that no VA block
/// is truncated.
///
/// Threads: any, at the same time. Kernels may run meanwhile.
class managed_memory {
public:
    managed_memory() = default;
    managed_memory(const managed_memory&) = delete;
    managed_memory& operator=(const managed_memory&) = delete;
    /// Frees the memory. No move may be under way: the owner calls `finish` before.
    virtual ~managed_memory() = default;

    /// Returns the range; call it once. Errors: ResourceExhausted with the size; the system's own.
    virtual absl::StatusOr<char*> allocate(std::size_t bytes) = 0;
    /// Advises the driver about [at, at + bytes), in place of what it was advised before. Errors: the driver's own.
    virtual absl::Status advise(char* at, std::size_t bytes, managed_advice what) = 0;
    /// Begins to move [at, at + bytes) to `to`, and returns without a wait. The range need not be whole segments. Moves
    /// and discards take place in the order of the calls. A thread that touches the memory before it has moved faults,
    /// as for any managed memory. Never waits for another call, so that an error may be that of a later `finish` or
    /// `discard`. Errors: the driver's own.
    virtual absl::Status begin_prefetch(char* at, std::size_t bytes, memory_tier to) = 0;
    /// Returns true while a move is under way that has begun before. Never waits. After an error of a move, false.
    [[nodiscard]] virtual bool is_moving() const = 0;
    /// Waits for all moves that have begun before. Errors: the driver's own.
    virtual absl::Status finish() = 0;
    /// Moves [at, at + bytes) to `to`, and waits for it, and for all moves that have begun before. Errors: as
    /// `begin_prefetch` and `finish`.
    absl::Status prefetch(char* at, std::size_t bytes, memory_tier to) {
        absl::Status s = begin_prefetch(at, bytes, to);
        return s.ok() ? finish() : s;
    }
    /// Returns true if `discard` has an effect.
    [[nodiscard]] virtual bool can_discard() const = 0;
    /// Discards the contents, so that the driver never writes them back, and waits for it, and for all moves that have
    /// begun before. Errors: the driver's own.
    virtual absl::Status discard(char* at, std::size_t bytes) = 0;
};

/// Returns `cudaMallocManaged` memory for the calling thread's current GPU. Errors: FailedPrecondition if the GPU has
/// no managed memory, if host and GPU cannot use it at the same time, or in a build without CUDA; the runtime's own.
absl::StatusOr<std::unique_ptr<managed_memory>> make_cuda_managed_memory();

/// Returns ordinary memory for the emulated device. It never moves; discarded memory reads as zeros.
std::unique_ptr<managed_memory> make_emulated_managed_memory();

}  // namespace orchard
