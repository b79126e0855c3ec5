// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Blocks of a heap that the host allocates and frees while kernels run, without launching anything.
///
/// The host takes chunks as a warp does, and hands out their blocks one by one. Such a block is like any other block of
/// a chunk: the thread that frees the last one returns the chunk. A block that the host frees, even one that a device
/// thread allocated, is queued for the device, which clears its bit. The host therefore changes no word that device
/// threads change with a read-modify-write: it reaches device memory by copies alone, and a copy of a word could undo
/// an atomic that comes between its reading and its writing.
///
///     allocate   service: a place -> record, owners, descriptor, `live` (copies, in this order) -> block 0, 1, 2, ...
///     free       queue -> ring in device memory -> a device thread that asks for memory takes it and clears the bit

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/state/heap_state.cuh"
#include "uvm/geometry/mailbox.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// The queue of frees from the host to the device: the ring (device/state/host_free_ring.cuh draws it) and, behind
/// it, the frees that found no room there. Not thread-safe: `host_blocks` calls it with its mutex held.
///
///     waiting_  | o | o | o | --copies--> ring | o | o | o | . . |      posted_: frees written to the ring so far
///                                                ^taken                 taken_: the ring's `taken` as last read
class host_free_queue {
public:
    /// `view` and `memory` must outlive the queue.
    host_free_queue(const device::heap_view& view, backing& memory) : view_{view}, memory_{memory} {}

    /// Queues the block at `offset` from the heap's first byte, behind all earlier frees, and writes what it can to the
    /// ring. Errors: the device's own; the block is queued even then, and a later call writes it.
    absl::Status push(std::uint64_t offset);
    /// Writes as many frees to the ring as there is room for. Errors: the device's own. Cost: two copies for up to 512
    /// frees, a third one if the ring seemed full. It never waits for the device to take frees.
    absl::Status flush();
    /// Returns the number of blocks that found no room in the ring.
    [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

private:
    absl::Status write_some(std::uint64_t count);

    const device::heap_view& view_;
    backing& memory_;
    // Offsets of blocks, in the order in which they were freed.
    std::deque<std::uint64_t> waiting_;
    std::uint64_t posted_ = 0;
    std::uint64_t taken_ = 0;  ///< frees taken by the device, as last read
};

/// The host's counts, to be added to those of the device.
struct host_block_counts {
    std::uint64_t blocks = 0;  ///< blocks handed out or given up so far
    std::uint64_t bytes = 0;   ///< bytes requested, of the blocks handed out
    std::uint64_t chunks = 0;  ///< chunks taken so far
};

/// Hands out and takes back blocks of one heap. Any thread may call these functions; a mutex makes them one at a time,
/// also while the service or a copy is waited for.
class host_blocks {
public:
    /// Returns segments and a tail for a chunk, or an error.
    using source = std::function<absl::StatusOr<mailbox::grant>(std::uint32_t segments, leaf_count leaves)>;
    /// Takes back a grant that `source` returned, and in which no block was ever handed out.
    using completion = std::function<void(const mailbox::grant&)>;

    /// `view` and `memory` must outlive the object, and so must all that the two functions use.
    host_blocks(const device::heap_view& view, backing& memory, source from, completion to)
        : view_{view}, memory_{memory}, frees_{view, memory}, from_{std::move(from)}, to_{std::move(to)} {}

    /// Returns a block of at least `bytes` bytes (not 0), at a multiple of 256 B. Errors: the source's; the device's
    /// own. Cost: none but a look-up if a chunk of this block size is open; otherwise one call of the source and four
    /// to six copies.
    absl::StatusOr<void*> allocate(std::uint64_t bytes);
    /// Queues a block of the heap for the device to free. Whether a block begins there is decided on the device.
    /// Errors: InvalidArgument for an address outside the heap; the device's own.
    absl::Status free(void* p);
    /// Queues the blocks that were never handed out, so that their chunks become free. Later allocations take new
    /// chunks.
    absl::Status give_up();
    /// Writes queued frees to the ring. Returns the number of frees that found no room because the device has not taken
    /// earlier ones. Errors: the device's own.
    absl::StatusOr<std::size_t> flush();
    /// Returns the counts so far, of one moment.
    [[nodiscard]] host_block_counts counts() const;

private:
    /// The way a chunk is cut into blocks of one size.
    struct cut {
        std::uint64_t bytes = 0;  ///< of one block
        std::uint32_t blocks = 0;
        std::uint32_t segments = 0;
        leaf_count leaves{0};
    };
    /// The part of a chunk that is not handed out yet.
    struct remainder {
        std::uint64_t offset = 0;  ///< of the next block
        std::uint32_t blocks = 0;
    };

    // The steps of `allocate`, described at their definitions. The mutex is held.
    [[nodiscard]] cut cut_for(std::uint64_t bytes) const;
    absl::StatusOr<remainder> take_chunk(const cut& c);
    absl::Status describe(const cut& c, const mailbox::grant& g);
    absl::Status note_grant(const mailbox::grant& g);
    absl::Status describe_portion(const cut& c, const mailbox::grant& g);
    absl::Status describe_segments(const cut& c, const mailbox::grant& g);
    absl::Status change_descriptor(std::uint32_t segment, device::segment_kind kind, std::uint32_t extent);
    /// Copies one value to device memory. Returns when it is there.
    template <class T>
    absl::Status write(T* to, const T& value) {
        return memory_.write(static_cast<void*>(to), static_cast<const void*>(&value), sizeof(T));
    }

    const device::heap_view& view_;
    backing& memory_;
    // Protects all members below, and keeps the copies of two calls from being mixed.
    mutable std::mutex mutex_;
    host_free_queue frees_;
    source from_;
    completion to_;
    std::map<std::uint64_t, remainder> open_;  ///< keyed by the size of the blocks
    std::uint64_t end_ = 0;                    ///< the segment after the highest one that was taken
    std::vector<mailbox::grant> late_;         ///< places that are taken but unused, because their description was
                                               ///< written too late
    host_block_counts counts_;
};

}  // namespace orchard
