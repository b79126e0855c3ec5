// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Memory of fixed sizes that lives as long as its driver.

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "uvm/memory/memory_driver.hpp"

namespace orchard::detail {

/// Cuts memory from pieces that a driver creates and maps: never `cudaMalloc` or `cudaHostAlloc`, whose counterparts
/// wait for kernels that run. Any thread.
class mapped_pieces {
public:
    /// Fills memory that was mapped with zeros, and lets the host reach it where the tier is the host's.
    using preparation = std::function<absl::Status(char* at, std::size_t bytes, memory_tier tier)>;

    /// @param driver  outlives this
    mapped_pieces(memory_driver& driver, preparation prepare) : driver_{driver}, prepare_{std::move(prepare)} {}

    /// Returns zero-filled memory, aligned to 256 B on the device and 4 KiB on the host. Errors: those of the driver
    /// and of the preparation; nothing is left of the piece then, unless the driver is not idle: `release` takes it.
    absl::StatusOr<void*> take(memory_tier tier, std::size_t bytes);

    /// Gives all of it back. A piece that cannot be unmapped goes with the process.
    void release();

private:
    struct piece {
        char* at = nullptr;
        std::size_t bytes = 0;
        std::size_t used = 0;
        memory_handle memory{};
        memory_tier tier = memory_tier::device;
    };
    absl::Status add_piece(memory_tier tier, std::size_t bytes);
    absl::Status map(const piece& p);

    memory_driver& driver_;
    preparation prepare_;
    std::mutex mutex_;
    std::vector<piece> pieces_;
};

}  // namespace orchard::detail
