// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The memory of a heap: which backing the options select, how large it is, and the metadata that grows with it.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/simt/launch.cuh"
#include "runtime/options/options.hpp"
#include "uvm/memory/backing.hpp"
#include "uvm/memory/managed_memory.hpp"

namespace orchard {

/// Returns the backing that `values` select on a device, the calling thread's current GPU on CUDA. If `values` leave
/// `backing`, `capacity` or `range` to the heap, they hold the chosen values afterwards. `driver` replaces the elastic
/// heap's own driver; it must be of the same device. Errors: those of the backing.
///
///     device      backing     memory
///     CUDA        automatic   elastic if the driver can map memory, else fixed
///                 elastic     `range` of addresses, `capacity` on the device, `host_budget` on the host
///                 fixed       `capacity` at once
///                 managed     `capacity` that the UVM driver moves
///     emulated    automatic   `capacity` of addresses, made accessible extent by extent; so is fixed
///                 elastic     as on CUDA, over ordinary memory
///                 managed     as on CUDA, but nothing moves
absl::StatusOr<std::unique_ptr<backing>> make_backing(options& values, simt::device_kind kind,
                                                      std::unique_ptr<memory_driver> driver = nullptr);

/// Returns the device budget for `capacity` 0 on a GPU with `free_bytes` free: `capacity_share` percent of them, in
/// whole segments. The rest is for metadata and for other programs.
std::uint64_t default_cuda_capacity(const options& values, std::uint64_t free_bytes);

/// Returns the address range in bytes for `range` 0 on a GPU with `gpu_bytes` of memory: four times the memory, but at
/// least 1 TiB and the budgets of `values`, and at most as many segments as a heap can number.
std::uint64_t default_cuda_range(const options& values, std::uint64_t gpu_bytes);

/// Memory that the caller supplies (`heap::create_in`); `at` is null if there is none.
struct supplied_memory {
    void* at = nullptr;
    std::uint64_t bytes = 0;
};

/// Returns the backing on the supplied memory; `values` hold the used amount afterwards. Errors: those of
/// `make_fixed_backing`; the device's own.
absl::StatusOr<std::unique_ptr<backing>> make_backing_in(const supplied_memory& memory, options& values,
                                                         simt::device_kind kind);

/// Managed memory that stays on the host and is mapped by the GPU; freed with this object.
struct host_resident_memory {
    std::unique_ptr<managed_memory> owner;
    void* at = nullptr;
};
/// Returns `bytes` zero-filled bytes of such memory for the mailbox, in VA blocks of their own. Errors:
/// FailedPrecondition if the GPU has no managed memory that the host can use at the same time; the driver's own; each
/// with the remedy. On a GPU, the call may wait for running kernels, and the end of the memory waits for them.
///
/// Source: AlignMalloc, section VI.A: preferred location the CPU, accessed by the GPU.
absl::StatusOr<host_resident_memory> make_managed_mailbox(simt::device_kind kind, std::size_t bytes);
/// The same in `memory`, of which nothing is allocated yet; or why there is none.
absl::StatusOr<host_resident_memory> make_managed_mailbox(absl::StatusOr<std::unique_ptr<managed_memory>> memory,
                                                          std::size_t bytes);

/// The largest number of segments that a heap may ever have committed at once, limited by its budgets or by its
/// addresses. The slab tables are as long, since no more segments can be slabs.
struct most_memory {
    std::uint32_t segments;
    bool by_range;  ///< the budgets would allow more segments than the addresses
};
/// Returns that number for the options of a heap, as `make_backing` left them.
most_memory most_segments(const options& values, const backing& memory);

/// Arrays of metadata of which only the part for committed segments is needed. That part is committed before the
/// segments and remains committed. For use by one thread: the one that creates the heap, and then the growth thread.
///
///     segments    | 0 ... 31 | 32 ... 63 | 64 ... 95 | ...        a line is 32 segments
///     an array    | line 0   | line 1    | line 2    | ...        `bytes_a_line` bytes each
///     a run of segments [40, 70) needs the lines 1 and 2 of every array
class partial_metadata {
public:
    /// Adds an array of `bytes` bytes with `bytes_a_line` for each line of segments (`device::segments_a_line`). The
    /// last line may be shorter.
    void add(void* array_at, std::uint64_t bytes, std::uint64_t bytes_a_line) {
        arrays_.push_back({static_cast<char*>(array_at), bytes, bytes_a_line});
    }

    /// Commits the metadata for a run of segments. Errors: the backing's; a part may be committed then, and a later
    /// call commits the rest. Cost: none if it is already committed; otherwise a commit for each array.
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
