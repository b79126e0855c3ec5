// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/heap/heap.hpp"

namespace orchard::test {

/// Memory that one kernel takes from its heap.
inline constexpr std::uint64_t grown_bytes = std::uint64_t{8} << 30;

struct gate_words;
struct growing_state;

/// The results of the kernel's requests.
struct grown {
    std::uint64_t requests = 0;  ///< that were made
    std::uint64_t nulls = 0;
    std::uint64_t longest_ns = 0;
    std::uint64_t damaged = 0;  ///< blocks that do not hold what was written to them
};

/// A plain kernel that allocates 8 GiB from a heap in blocks of one size, once the host has opened its gate, and keeps
/// them. It takes about 30 ms if no request waits, because the threads pause between their rounds, so that the heap has
/// to grow all the time. Every block is written at its beginning, at each 64 KiB and at its end.
class growing {
public:
    /// Allocates the kernel's memory other than the heap. @param block_bytes 2 KiB, 64 KiB or 8 MiB
    static absl::StatusOr<std::unique_ptr<growing>> make(std::uint64_t block_bytes);
    growing(const growing&) = delete;
    growing& operator=(const growing&) = delete;
    ~growing();

    /// Launches the kernel, and waits until it runs. Errors: CUDA's own; DeadlineExceeded after 5 s.
    absl::Status launch(const heap& from, cudaStream_t stream);
    /// Lets the kernel allocate. If this is not called within 10 s, the kernel ends without a request.
    void open_gate();
    /// Returns whether the gate is open. No call of CUDA.
    [[nodiscard]] bool is_open() const;
    /// Returns whether the last thread has made its last request. No call of CUDA.
    [[nodiscard]] bool is_over() const;
    /// Waits for the kernel and checks all blocks by another one. Errors: CUDA's own.
    absl::StatusOr<grown> finish();

private:
    explicit growing(std::uint64_t block_bytes) : block_bytes_{block_bytes} {}
    absl::Status allocate();

    std::uint64_t block_bytes_;
    gate_words* gate_ = nullptr;      ///< in mapped memory of the host
    growing_state* state_ = nullptr;  ///< in memory of the device
    void** blocks_ = nullptr;         ///< likewise: one for each request
};

}  // namespace orchard::test
