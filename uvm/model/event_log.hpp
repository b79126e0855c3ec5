// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The events of a run of the paging model, one by one; `result` has their counts alone.
///
///     batch     | fetch ............ block 1 .......... block 2 ............ replay |
///     faults      one for each entry that the batch fetched
///     moves                        those of block 1    those of block 2             stamped with the end of the
///     service evictions                    where memory was short: before the block's own moves, with the same time
///
/// Pages are OS pages of 4 KiB, counted from the beginning of the space. Times are those of the model's clock.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "uvm/model/fault_buffer.hpp"
#include "uvm/model/page_mask.hpp"

namespace orchard::uvm_model {

/// What became of pages. `result` counts the same pages by these names.
enum class movement : std::uint8_t {
    demand,        ///< moved to the GPU because they faulted
    prefetched,    ///< moved to the GPU by the driver's prefetcher
    requested,     ///< moved to the GPU by `prefetch`
    populated,     ///< placed on the GPU; no data moved
    written_back,  ///< moved to the CPU, by an eviction or by `prefetch`
    copied_out,    ///< copied to the CPU; they stay on the GPU, too
    dropped,       ///< left the GPU; no data moved
};

/// A raw fault that the driver fetched.
struct fault_event {
    nanoseconds arrival_ns;  ///< when it was in the fault buffer
    std::uint64_t page;
    std::uint32_t batch;  ///< index in `event_log::batches`
    bool write;           ///< a write or an atomic
};

/// A batch of faults.
struct batch_event {
    nanoseconds begin_ns;  ///< when the driver fetched it
    nanoseconds end_ns;    ///< when the driver replayed
    std::uint32_t faults;  ///< raw faults, duplicates included
    std::uint32_t duplicates;
    std::uint32_t blocks;   ///< VA blocks serviced
    std::uint32_t flushed;  ///< entries that the flush dropped
};

/// A run of consecutive pages, all in one VA block, that came to the GPU or left it.
struct move_event {
    nanoseconds time_ns;  ///< when the service of the block ended, or the call was made
    std::uint64_t page;   ///< the first one
    std::uint32_t pages;
    movement what;
};

/// The eviction of a 2 MiB chunk of GPU memory. The moves of its pages are events of their own.
struct eviction_event {
    nanoseconds time_ns;
    std::uint64_t page;  ///< first page of the VA block whose memory it was; if truncated blocks share it, of the first
    std::uint32_t chunk;  ///< number of the chunk
    std::uint32_t pages;  ///< pages that left the GPU
};

/// The events since the last run ended: of the calls between the runs, and of the next run. Each list is in the order
/// of the events. Memory: 24 or 32 bytes for each.
struct event_log {
    std::vector<fault_event> faults;
    std::vector<batch_event> batches;
    std::vector<move_event> moves;
    std::vector<eviction_event> evictions;

    /// Adds the runs of consecutive pages in `pages`. @param base  number in the space of the segment's first page
    void add(std::uint64_t base, const page_mask& pages, movement what) {
        pages.each_run([&](page_range run) { moves.push_back({0, base + run.first, run.size(), what}); });
    }
    /// Adds the eviction of a chunk, whose pages left by the moves from index `first_move` on.
    void add_eviction(std::uint64_t page, std::uint32_t chunk, std::size_t first_move) {
        std::uint32_t pages = 0;
        for (std::size_t i = first_move; i < moves.size(); ++i) {
            pages += moves[i].pages;
        }
        evictions.push_back({0, page, chunk, pages});
    }
    /// Sets the time of the moves and evictions that were added since the last call. The memory does not know the time
    /// of a service, which depends on the work that the service turns out to be.
    void stamp(nanoseconds now) {
        for (; stamped_moves_ < moves.size(); ++stamped_moves_) {
            moves[stamped_moves_].time_ns = now;
        }
        for (; stamped_evictions_ < evictions.size(); ++stamped_evictions_) {
            evictions[stamped_evictions_].time_ns = now;
        }
    }

private:
    std::size_t stamped_moves_ = 0;
    std::size_t stamped_evictions_ = 0;
};

}  // namespace orchard::uvm_model
