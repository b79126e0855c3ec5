// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The events of one heap: where they come from, and who listens. A heap without a listener has none of it.
///
///     kernels --ring--> kernel_events --+
///     service, growth --queues----------+--> event_log --> trace_writer   (option `trace`)
///                                                      --> site_table     (option `sites`)

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/state/event_ring.cuh"
#include "host/events/event_log.hpp"
#include "runtime/options/options.hpp"
#include "runtime/trace/kernel_events.hpp"
#include "runtime/trace/site_table.hpp"
#include "runtime/trace/trace_writer.hpp"
#include "uvm/memory/backing.hpp"

namespace orchard {

class heap_events {
public:
    /// Returns the events of a heap with these options; null if nobody listens. Opens the trace file. Errors: those of
    /// `trace_writer::open`; those of the backing.
    /// @param has_kernels  kernels report events, too: no published algorithm serves the heap
    static absl::StatusOr<std::unique_ptr<heap_events>> make(const options& values, backing& memory, bool on_cuda,
                                                             bool has_kernels);
    ~heap_events();

    /// Returns the ring for kernels, in device memory; null if they report nothing.
    [[nodiscard]] device::event_ring* ring() const { return ring_; }
    /// Returns whether kernels report every block.
    [[nodiscard]] bool reports_blocks() const { return log_.mode() == event_mode::complete && ring_ != nullptr; }
    [[nodiscard]] event_log& log() { return log_; }

    /// Starts the log's thread. Errors: throws std::system_error if no thread can be started.
    void start() { log_.start(); }
    /// Ends the log and the trace. No kernel runs, and the heap's threads have ended. Errors: those of the trace's
    /// file.
    absl::Status end();

    /// Notes a block that the host has allocated, or is about to free (`kernel_events::add_of_host`). Errors: the
    /// device's own.
    absl::Status note_host_block(event_kind kind, std::uint64_t offset, std::uint64_t bytes);
    /// Returns what the blocks of each tag take, with all events of kernels that have ended. Errors: FailedPrecondition
    /// without the option `sites`; DeadlineExceeded if the log does not come to rest within `limit`.
    absl::StatusOr<std::vector<site_usage>> sites(absl::Duration limit);
    /// Waits until what kernels that have ended have reported has reached the listeners. Errors: as `sites`.
    absl::Status flush(absl::Duration limit);

private:
    heap_events(const event_log_settings& settings, backing& memory) : log_{settings}, memory_{memory} {}
    absl::Status make_ring(const options& values, bool on_cuda);
    absl::StatusOr<std::uint64_t> read_tickets();

    event_log log_;
    backing& memory_;
    device::event_ring* ring_ = nullptr;
    std::unique_ptr<kernel_events> kernels_;
    std::unique_ptr<trace_writer> trace_;
    std::unique_ptr<site_table> sites_;
    bool has_ended_ = false;
};

}  // namespace orchard
