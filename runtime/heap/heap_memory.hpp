// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/simt/launch.cuh"
#include "runtime/options/options.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Returns the backing that `values` select on a device. If `values` leave `backing`, `capacity` or `range` to the
/// heap, they hold the chosen values afterwards. `driver` replaces the elastic heap's own driver; it must be of the
/// same device. Errors: those of the backing.
absl::StatusOr<std::unique_ptr<backing>> make_backing(options& values, simt::device_kind kind,
                                                      std::unique_ptr<memory_driver> driver = nullptr);

/// Returns the device budget for `capacity` 0 on a GPU with `free_bytes` free: `capacity_share` percent of them, in
/// whole segments.
std::uint64_t default_cuda_capacity(const options& values, std::uint64_t free_bytes);

/// Returns the address range in bytes for `range` 0 on a GPU with `gpu_bytes` of memory: four times the memory, but at
/// least 1 TiB and the budgets of `values`, and at most as many segments as a heap can number.
std::uint64_t default_cuda_range(const options& values, std::uint64_t gpu_bytes);

/// Memory that the caller supplies.
struct supplied_memory {
    void* at = nullptr;
    std::uint64_t bytes = 0;
};

/// Returns the backing on the supplied memory; `values` hold the used amount afterwards. Errors: those of
/// `make_fixed_backing`; the device's own.
absl::StatusOr<std::unique_ptr<backing>> make_backing_in(const supplied_memory& memory, options& values,
                                                         simt::device_kind kind);

/// The largest number of segments that a heap may ever have committed at once, limited by its budgets or by its
/// addresses.
struct most_memory {
    std::uint32_t segments;
    bool by_range;  ///< the budgets would allow more segments than the addresses
};
most_memory most_segments(const options& values, const backing& memory);

/// Arrays of metadata of which only the part for committed segments is needed. That part is committed before the
/// segments and remains committed. For use by one thread.
class partial_metadata {
public:
    /// Adds an array of `bytes` bytes with `bytes_a_line` for each line of segments (`device::segments_a_line`).
    void add(void* array_at, std::uint64_t bytes, std::uint64_t bytes_a_line) {
        arrays_.push_back({static_cast<char*>(array_at), bytes, bytes_a_line});
    }

    /// Commits the metadata for a run of segments. Errors: the backing's. Cost: none if it is already committed.
    absl::Status prepare(backing& memory, segment_run run);

private:
    struct array {
        char* at;
        std::uint64_t bytes;
        std::uint64_t bytes_a_line;
    };
    std::vector<array> arrays_;
};

}  // namespace orchard
