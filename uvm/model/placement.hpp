// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The addresses of the bytes of threads in a managed space, if all threads have equally many: the layout within a warp
/// chunk, and the chunks one after another as the heap's service places them.
///
///                   chunks of 512 KiB, packed          chunks of 3 MiB
///     VA block 0    | w0 | w1 | w2 | w3 |              |        w0         |
///     VA block 1    | w4 | w5 | w6 | w7 |              |   w0    | unused  |
///     VA block 2    | w8 | ...                         |        w1         |

#include <cstdint>

#include "absl/status/statusor.h"
#include "uvm/geometry/lane_order.hpp"
#include "uvm/geometry/layout.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard::uvm_model {

/// The allocator that places the threads' memory.
enum class placed_by : std::uint8_t {
    service,      ///< a heap's service: one chunk for the arrays of a warp
    sync_malloc,  ///< our reading of SyncMalloc: a piece for each thread's request
};

/// The memory of a kernel's threads.
struct thread_memory {
    std::uint64_t threads = 1024;               ///< 32 of them are a warp; the last warp may have fewer
    std::uint64_t bytes_per_thread = 64 << 10;  ///< the same for all
    std::uint64_t element_bytes = 4;           ///< a power of two, at most 64 KiB, so that no element lies in two tiles
    layout how = layout::linear();             ///< `linear` or `interleaved`
    lane_order order = lane_order::ascending;  ///< positions of the lanes; only for `interleaved`
    portion_policy portions = portion_policy::packed;  ///< how chunks under 2 MiB share VA blocks
    placed_by by = placed_by::service;                 ///< `sync_malloc`: only for `linear`; `portions` has no meaning
    tail_policy tails = tail_policy::adjacent;         ///< of interleaved chunks above 2 MiB, if all warps are full
};

/// A byte of a thread's memory.
struct thread_byte {
    std::uint64_t thread;  ///< 0 to `threads` - 1
    std::uint64_t offset;  ///< bytes from the beginning of its memory
    friend constexpr bool operator==(const thread_byte&, const thread_byte&) = default;
};

/// Maps offsets of threads to addresses, and back.
///
/// 32 threads are a warp, and have one chunk. `linear`: the bytes of one lane after another's, each aligned to 16 B.
/// `interleaved`: as in `heap_ref::allocate_array`, including tail rows. The last warp may have fewer lanes.
///
/// Chunks lie where the service places them in an empty heap, warp after warp: whole VA blocks first, the rest as a
/// portion at the beginning of the next block. Chunks under 2 MiB therefore share VA blocks: `packed` side by side in
/// leaves of 64 KiB, `padded` in twice the next power of two of leaves. Each larger chunk begins a block of its own.
/// With `pooled` tails, the tails of larger chunks share VA blocks as chunks under 2 MiB do, where the heap would place
/// them so (device/arrays/pooled_tail.cuh). A block of tails precedes the segments of their chunks. If the last warp
/// has fewer lanes, all tails stay adjacent.
///
///     adjacent    | w0 | tail of w0 . . . | w1 | tail of w1 . . . |
///     pooled      | tails of w0, w1, ... | w0 | w1 | ...
///
/// `sync_malloc` knows no warps: a thread's bytes take the first free pages of 4 KiB, thread after thread, so that they
/// lie one after another from the beginning of the space, across the borders of VA blocks. Up to 512 B they take a slot
/// of a slab, whose bytes are the next power of two, at least 16. Our reading of AlignMalloc (TPDS 2025, section
/// VII-B), which says of SyncMalloc (J. Zhang et al., ICPP 2024): first fit over the pages of a bitmap, and slabs up to
/// 512 B. That the requests come in the order of the threads is ours.
///
///     3 threads of 5 KiB      service        | t0 | t1 | t2 |            5 KiB apart
///                             sync_malloc    | t0 ... | t1 ... | t2 ...  8 KiB apart
class placement {
public:
    /// Returns the placement of `of`. Errors: InvalidArgument with the number, for 0 or more than 2^27 threads, 0 or
    /// more than 2^43 bytes each, chunks of more than 2^53 bytes in all, an element size that is no power of two up to
    /// 64 KiB or exceeds a thread's bytes, the layout `automatic`, and `sync_malloc` with a layout other than `linear`.
    static absl::StatusOr<placement> create(const thread_memory& of);

    [[nodiscard]] const thread_memory& memory() const { return memory_; }
    /// Returns the bytes of the space: whole VA blocks.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint32_t warps() const { return warps_; }
    /// Returns the lanes of a warp.
    [[nodiscard]] std::uint32_t width(std::uint32_t warp) const { return warp + 1 == warps_ ? last_width_ : max_lanes; }

    /// Returns the address of a warp's chunk. Cost: a division.
    [[nodiscard]] std::uint64_t chunk(std::uint32_t warp) const {
        return warp / chunks_per_group_ * group_bytes_ + tails_bytes_ + warp % chunks_per_group_ * chunk_bytes_;
    }
    /// Returns the offset of a lane's byte in its warp's chunk, modulo 2^64: a tail may lie before the chunk. Cost: as
    /// `lane_map::offset_of`.
    [[nodiscard]] std::uint64_t in_chunk(std::uint32_t warp, std::uint32_t lane, std::uint64_t offset) const {
        if (linear()) {
            return lane * lane_bytes_ + offset;
        }
        const lane_map& map = warp + 1 == warps_ ? last_map_ : map_;
        const std::uint64_t at = map.offset_of(position_of(memory_.order, map.width, lane), offset);
        return has_tails() && at >= chunk_bytes_ ? tail(warp) - chunk(warp) + at - chunk_bytes_ : at;
    }
    /// Returns the address of byte `offset` < `bytes_per_thread` of `thread`.
    [[nodiscard]] std::uint64_t address(std::uint64_t thread, std::uint64_t offset) const {
        const auto warp = static_cast<std::uint32_t>(thread / max_lanes);
        return chunk(warp) + in_chunk(warp, static_cast<std::uint32_t>(thread % max_lanes), offset);
    }
    /// Returns the thread and the byte at `address`: the inverse of `address`. An address outside all threads' memory
    /// gives an offset that is not below `bytes_per_thread`, or, in the part of a last warp or last VA block that has
    /// no owner, a thread that is not below `threads`. Cost: some divisions.
    [[nodiscard]] thread_byte byte_at(std::uint64_t address) const;

private:
    placement() = default;
    [[nodiscard]] bool linear() const { return memory_.how.which == layout::choice::linear; }
    /// Returns whether tails lie elsewhere than behind their chunks' segments.
    [[nodiscard]] bool has_tails() const { return tails_bytes_ != 0; }
    /// Returns the address of the tail of a warp's chunk, if it lies elsewhere.
    [[nodiscard]] std::uint64_t tail(std::uint32_t warp) const {
        return warp / chunks_per_group_ * group_bytes_ + warp % chunks_per_group_ * tail_bytes_;
    }
    void place_chunks();

    thread_memory memory_;
    std::uint64_t bytes_ = 0;  ///< size of the space
    std::uint32_t warps_ = 0;
    std::uint32_t last_width_ = 0;        ///< lanes of the last warp
    std::uint64_t lane_bytes_ = 0;        // linear: distance from lane to lane
    lane_map map_;                        ///< interleaved: the map of all warps but the last
    lane_map last_map_;                   ///< interleaved: the map of the last warp, which may have fewer lanes
    std::uint64_t chunk_bytes_ = 0;       // distance from chunk to chunk in a group
    std::uint32_t chunks_per_group_ = 1;  // chunks that share a VA block
    std::uint64_t group_bytes_ = 0;       ///< distance from group to group: whole VA blocks
    // Tails that lie elsewhere; a chunk is then its segments alone.
    std::uint64_t tails_bytes_ = 0;  ///< of a group, before its chunks: a VA block; 0: tails are adjacent
    std::uint64_t tail_bytes_ = 0;   ///< distance from tail to tail
};

}  // namespace orchard::uvm_model
