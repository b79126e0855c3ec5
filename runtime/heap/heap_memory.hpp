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

/// The backing that `values` ask for on a device. Where they leave `backing`, `capacity` or `range` to the heap, they
/// say afterwards what was chosen. `driver`: what an elastic heap is to use in place of its own; of the same device.
/// Errors: those of the backing.
absl::StatusOr<std::unique_ptr<backing>> make_backing(options& values, simt::device_kind kind,
                                                      std::unique_ptr<memory_driver> driver = nullptr);

/// The device budget on a GPU with `free_bytes` free where `capacity` is 0: `capacity_share` percent of them, in whole
/// segments.
std::uint64_t default_cuda_capacity(const options& values, std::uint64_t free_bytes);

/// The addresses of an elastic heap on a GPU with `gpu_bytes` of memory where `range` is 0: four times those, at least
/// 1 TiB and the budgets of `values`. At most what a heap can number.
std::uint64_t default_cuda_range(const options& values, std::uint64_t gpu_bytes);

/// Memory that a caller supplies.
struct supplied_memory {
    void* at = nullptr;
    std::uint64_t bytes = 0;
};

/// The backing on such memory; `values` say afterwards how much of it is used. Errors: as `make_fixed_backing`; the
/// device's.
absl::StatusOr<std::unique_ptr<backing>> make_backing_in(const supplied_memory& memory, options& values,
                                                         simt::device_kind kind);

/// Segments that a heap may ever have committed at once: what its budgets allow, or its addresses.
struct most_memory {
    std::uint32_t segments;
    bool by_range;  ///< the budgets would allow more
};
most_memory most_segments(const options& values, const backing& memory);

/// Arrays of metadata of which a part is needed for the segments that are committed: that part is committed before
/// them, and stays so. One thread.
class partial_metadata {
public:
    /// An array of `bytes` with `bytes_a_line` for each line of segments (`device::segments_a_line`).
    void add(void* array_at, std::uint64_t bytes, std::uint64_t bytes_a_line) {
        arrays_.push_back({static_cast<char*>(array_at), bytes, bytes_a_line});
    }

    /// Makes it ready for a run of segments. Errors: the backing's. Cost: nothing where it is ready.
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
