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

/// Allocates from pieces that a driver creates and maps. It never uses `cudaMalloc` or `cudaHostAlloc`, because the
/// calls that free such memory wait for running kernels. Any thread.
class mapped_pieces {
public:
    /// Fills mapped memory with zeros, and gives the host access to memory of the host tier.
    using preparation = std::function<absl::Status(char* at, std::size_t bytes, memory_tier tier)>;

    /// @param driver  must outlive this object
    mapped_pieces(memory_driver& driver, preparation prepare) : driver_{driver}, prepare_{std::move(prepare)} {}

    /// Returns zero-filled memory, aligned to 256 B on the device and to 4 KiB on the host. Errors: those of the driver
    /// and of the preparation. On an error the piece is released, unless the driver is not idle; `release` then
    /// releases it.
    absl::StatusOr<void*> take(memory_tier tier, std::size_t bytes);

    /// Releases all pieces. A piece that cannot be unmapped is released at the end of the process.
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
