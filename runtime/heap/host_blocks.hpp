// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Blocks of a heap that the host allocates and frees beside running kernels, without launching anything.
///
/// The host takes chunks as a warp does, and hands out their blocks one by one. What it has handed out is a block of a
/// chunk like any other: the thread that frees the last one gives the chunk back. A block that the host frees, also
/// one that a device thread allocated, is queued for the device, which clears its bit: the host changes no word that
/// device threads change.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/heap_state.cuh"
#include "uvm/geometry/mailbox.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

/// Frees on their way to the device.
class host_free_queue {
public:
    host_free_queue(const device::heap_view& view, backing& memory) : view_{view}, memory_{memory} {}

    /// Queues the block at `offset` from the heap's first byte. Errors: the device's own; it is queued all the same.
    absl::Status push(std::uint64_t offset);
    /// Writes as many to the ring as there is room for. Errors: the device's own.
    absl::Status flush();
    /// Blocks that found no room in the ring.
    [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

private:
    absl::Status write_some(std::uint64_t count);

    const device::heap_view& view_;
    backing& memory_;
    std::deque<std::uint64_t> waiting_;
    std::uint64_t posted_ = 0;
    std::uint64_t taken_ = 0;  ///< as last read
};

/// What the host has counted, to be added to what the device has.
struct host_block_counts {
    std::uint64_t blocks = 0;  ///< handed out so far, or given up
    std::uint64_t bytes = 0;   ///< of these
    std::uint64_t chunks = 0;  ///< taken so far
};

/// Any thread.
class host_blocks {
public:
    /// Gets segments and a tail for a chunk, or says why not.
    using source = std::function<absl::StatusOr<mailbox::grant>(std::uint32_t segments, leaf_count leaves)>;
    /// Takes back what `source` gave.
    using completion = std::function<void(const mailbox::grant&)>;

    host_blocks(const device::heap_view& view, backing& memory, source from, completion to)
        : view_{view}, memory_{memory}, frees_{view, memory}, from_{std::move(from)}, to_{std::move(to)} {}

    /// A block of at least `bytes` (not 0), at a multiple of 256 B. Errors: the source's; the device's own.
    absl::StatusOr<void*> allocate(std::uint64_t bytes);
    /// Queues a block of the heap for the device to free. Errors: InvalidArgument for what lies outside the heap; the
    /// device's own.
    absl::Status free(void* p);
    /// Queues what was never handed out.
    absl::Status give_up();
    /// Hands on what is queued; how much of it found no room, as the device has not taken what came before.
    absl::StatusOr<std::size_t> flush();
    [[nodiscard]] host_block_counts counts() const;

private:
    /// Blocks of one size that a chunk is cut into.
    struct cut {
        std::uint64_t bytes = 0;  ///< of a block
        std::uint32_t blocks = 0;
        std::uint32_t segments = 0;
        leaf_count leaves{0};
    };
    /// What is left of a chunk.
    struct remainder {
        std::uint64_t offset = 0;  ///< of the next block
        std::uint32_t blocks = 0;
    };

    [[nodiscard]] cut cut_for(std::uint64_t bytes) const;
    absl::StatusOr<remainder> take_chunk(const cut& c);
    absl::Status describe(const cut& c, const mailbox::grant& g);
    absl::Status note_grant(const mailbox::grant& g);
    absl::Status describe_portion(const cut& c, const mailbox::grant& g);
    absl::Status describe_segments(const cut& c, const mailbox::grant& g);
    absl::Status change_descriptor(std::uint32_t segment, device::segment_kind kind, std::uint32_t extent);
    template <class T>
    absl::Status write(T* to, const T& value) {
        return memory_.write(static_cast<void*>(to), static_cast<const void*>(&value), sizeof(T));
    }

    const device::heap_view& view_;
    backing& memory_;
    mutable std::mutex mutex_;
    host_free_queue frees_;
    source from_;
    completion to_;
    std::map<std::uint64_t, remainder> open_;  ///< by the blocks' size
    std::uint64_t end_ = 0;                    ///< behind the highest segment that was taken
    std::vector<mailbox::grant> late_;         ///< places whose description came too late: taken, and not in use
    host_block_counts counts_;
};

}  // namespace orchard
