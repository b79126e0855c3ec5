// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Memory of fixed sizes that lives as long as its driver: metadata that is never given back, the mailbox, the staging
/// memory of copies.
///
///     piece on the device    | state | tables | bitmap |. . . . . . . . . |      multiples of 256 B, one after another
///     piece on the host      | mailbox | failures |. . . . . . . . . . . .|      multiples of 4 KiB
///                            '------------ used ------'------ free -------'

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "uvm/memory/memory_driver.hpp"

namespace orchard::detail {

/// Allocates from pieces that a driver creates and maps. It never uses `cudaMalloc` or `cudaHostAlloc`, because the
/// calls that free such memory wait for running kernels: an elastic heap could then not be destroyed beside another
/// heap's kernels. Any thread; one call at a time, since a mutex is held.
class mapped_pieces {
public:
    /// Fills mapped memory with zeros, and gives the host access to memory of the host tier. May wait for a deadline.
    using preparation = std::function<absl::Status(char* at, std::size_t bytes, memory_tier tier)>;

    /// @param driver  must outlive this object
    mapped_pieces(memory_driver& driver, preparation prepare) : driver_{driver}, prepare_{std::move(prepare)} {}

    /// Returns zero-filled memory, aligned to 256 B on the device and to 4 KiB on the host. It comes from the first
    /// piece with room for it, otherwise from a new piece. It cannot be freed by itself. Errors: those of the driver
    /// and of the preparation. On an error the piece is released, unless the driver is not idle; `release` then
    /// releases it. Cost: the calls of the driver for a new piece, otherwise a walk over the pieces.
    absl::StatusOr<void*> take(memory_tier tier, std::size_t bytes);

    /// Releases all pieces. No call may access their memory any more: the owner waits for late copies before
    /// (`cuda_memory::finish`). A piece that cannot be unmapped is released at the end of the process.
    void release();

private:
    /// One mapping. [0, used) is handed out, [used, bytes) is free.
    struct piece {
        char* at = nullptr;
        std::size_t bytes = 0;
        std::size_t used = 0;
        memory_handle memory{};
        memory_tier tier = memory_tier::device;
    };
    /// A step of `take`, described at its definition. Called with the mutex held.
    absl::Status add_piece(memory_tier tier, std::size_t bytes);

    memory_driver& driver_;
    preparation prepare_;
    std::mutex mutex_;
    std::vector<piece> pieces_;
};

}  // namespace orchard::detail
