// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a heap tells tools that listen to NVTX.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "host/events/event_sink.hpp"
#include "host/events/reports.hpp"
#include "runtime/nvtx/domain.hpp"

namespace orchard::nvtx {

/// Ranges of a heap's work, on the threads that do it: turns of the service that served requests (payload: their
/// number), requests that wait for memory (bytes), commits, decommits, moves and trims (bytes). Made only if a tool is
/// attached.
class heap_ranges final : public activity_observer {
public:
    /// @param slots  of the mailbox
    explicit heap_ranges(std::uint32_t slots) : waits_(slots) {}

    void thread_begins(const char* name) override { name_thread(name); }
    void begin(activity what, std::uint64_t amount) override;
    void end(activity what, std::uint64_t amount) override;
    void wait_begins(std::uint32_t slot, std::uint64_t bytes) override;
    void wait_ends(std::uint32_t slot) override;

    /// Returns the most requests of a turn of the service since the last call. The log's thread calls it.
    std::uint64_t take_queue_depth() { return depth_.exchange(0, std::memory_order_relaxed); }

private:
    std::vector<std::uint64_t> waits_;     ///< by slot: the range of the request that waits; of the service's thread
    std::atomic<std::uint64_t> depth_{0};  ///< a maximum that may miss a turn, as the reader resets it
};

/// The memory of a heap, as a heap of NVTX: its granted segments and tails as regions, or its live blocks. Does nothing
/// if no tool listens to memory.
///
///     segments    the whole range is a `layout`: regions are notes, kernels may access everything
///     blocks      the committed part is a `sub_allocator`: an access outside of the live blocks is an error
///
/// Any thread may call its functions: they exclude each other.
class heap_memory_marks {
public:
    /// Registers the heap's range.
    explicit heap_memory_marks(address_range all);
    ~heap_memory_marks();
    heap_memory_marks(const heap_memory_marks&) = delete;
    heap_memory_marks& operator=(const heap_memory_marks&) = delete;

    /// Returns true if a tool listens to memory, and takes the segments as notes.
    [[nodiscard]] bool is_heard() const { return is_heard_; }
    /// Follows `grant` and `give_back`: each granted segment is a region, and each tail.
    void note(std::span<const event> events);
    /// Registers these blocks in place of the segments, or of the blocks before; only differences are told. Returns
    /// false if no tool listens, or if the tool takes no blocks in this memory.
    /// @param accessible  the part of the range that kernels may access; contains all blocks
    bool mark_blocks(address_range accessible, std::span<const address_range> blocks);
    /// Registers the granted segments again. For a tool that takes no segments, all memory becomes one block instead:
    /// compute-sanitizer reports every access to memory whose heap was unregistered.
    void mark_segments();

private:
    [[nodiscard]] const void* at(std::uint64_t offset) const { return static_cast<const char*>(all_.at) + offset; }
    void register_segments();
    void replace_blocks(std::span<const address_range> blocks);

    address_range all_;
    std::mutex mutex_;
    memory_heap* heap_ = nullptr;
    bool is_heard_ = false;
    bool has_blocks_ = false;  ///< from `mark_blocks` to `mark_segments`
    address_range accessible_{nullptr, 0};
    std::map<std::uint64_t, std::uint64_t> granted_;  ///< offset -> bytes, of segments and tails
    std::map<const void*, std::uint64_t> blocks_;     ///< the blocks that are registered
};

/// The values of a heap's counters, in bytes and requests.
struct counter_values {
    std::uint64_t in_use = 0;
    std::uint64_t committed = 0;
    std::uint64_t on_host = 0;
};

/// Passes a heap's events on to NVTX, on the log's thread: regions of memory, and counters, each time events arrive.
class heap_sink final : public event_sink {
public:
    /// @param now  returns the values; called on the log's thread
    heap_sink(heap_memory_marks& memory, heap_ranges& ranges, std::function<counter_values()> now);

    void take(std::span<const event> events) override;
    void lost(std::uint64_t count) override;

private:
    void sample_all();

    heap_memory_marks& memory_;
    heap_ranges& ranges_;
    std::function<counter_values()> now_;
    /// In use, committed, host tier, queue depth, events lost. Heaps of one process have counters of the same names.
    std::array<std::uint64_t, 5> counters_{};
    std::uint64_t lost_ = 0;
};

}  // namespace orchard::nvtx
