// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The trace of a heap and its allocation sites: what kernels report of their blocks, and the two that listen to it
/// beside tools (heap_events.hpp). A heap without the options `trace` and `sites` has none of it.
///
///     kernels --ring--> kernel_events --+
///     service, growth --queues----------+--> event_log --> trace_writer   (option `trace`)
///                                                      --> site_table     (option `sites`)

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/state/event_ring.cuh"
#include "host/events/event_log.hpp"
#include "runtime/heap/heap_events.hpp"
#include "runtime/options/options.hpp"
#include "runtime/trace/kernel_events.hpp"
#include "runtime/trace/site_table.hpp"
#include "runtime/trace/trace_writer.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

class heap_trace {
public:
    /// Returns the trace of a heap with these options; null if it has neither option. Opens the file, and adds its
    /// source and its sinks to `listeners`. Errors: those of `trace_writer::open`; those of the backing.
    /// @param has_kernels  kernels report events, too: no published algorithm serves the heap
    static absl::StatusOr<std::unique_ptr<heap_trace>> make(const options& values, backing& memory, bool on_cuda,
                                                            bool has_kernels, event_listeners& listeners);

    /// Returns the ring for kernels, in device memory; null if they report nothing.
    [[nodiscard]] device::event_ring* ring() const { return ring_; }
    /// Returns whether kernels report every block.
    [[nodiscard]] bool reports_blocks() const { return mode_ == event_mode::complete && ring_ != nullptr; }

    /// Stops the log and ends the trace's file. No kernel runs, and the heap's threads have ended. Errors: those of
    /// `trace_writer::finish`.
    absl::Status end(event_log& log);

    /// Returns how often and how long kernels have waited for the log so far. Errors: the device's own.
    absl::StatusOr<event_waits> kernel_waits();
    /// Notes a block that the host has allocated, or is about to free (`kernel_events::add_of_host`). Errors: the
    /// device's own.
    absl::Status note_host_block(event_kind kind, std::uint64_t offset, std::uint64_t bytes);
    /// Returns what the blocks of each tag take, with all events of kernels that have ended. Errors: FailedPrecondition
    /// without the option `sites`; DeadlineExceeded if the log does not come to rest within `limit`.
    absl::StatusOr<std::vector<site_usage>> sites(event_log& log, absl::Duration limit) const;

private:
    heap_trace(event_mode mode, backing& memory) : mode_{mode}, memory_{memory} {}
    absl::Status make_ring(const options& values, bool on_cuda);
    absl::StatusOr<std::uint64_t> read_word(const simt::device_word<std::uint64_t>& of_ring);

    event_mode mode_;
    backing& memory_;
    device::event_ring* ring_ = nullptr;
    std::unique_ptr<kernel_events> kernels_;
    std::unique_ptr<trace_writer> file_;
    std::unique_ptr<site_table> sites_;
};

}  // namespace orchard
