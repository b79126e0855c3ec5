// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The two ends of an event log: where events come from besides the heap's own threads, and where they go.
///
///     event_queue (service)  --+
///     event_queue (growth)   --+--> event_log: one thread, merged by time --> event_sink, event_sink, ...
///     event_queue (callers)  --+
///     event_source (kernels) --+

#include <cstddef>
#include <cstdint>
#include <span>

#include "host/events/event.hpp"

namespace orchard {

/// Receives the events of a heap, for example to write them to a file. The log's thread alone calls it.
///
/// A sink must not wait for the heap's service, growth or kernels: in the complete mode these may wait for the log.
/// What a sink spends delays the other sinks, and fills the queues.
class event_sink {
public:
    event_sink() = default;
    event_sink(const event_sink&) = delete;
    event_sink& operator=(const event_sink&) = delete;
    virtual ~event_sink() = default;

    /// Takes the next events, at least one. Those of one producer are in its order; those of several are in the order
    /// of their times, as far as they arrived in time (`event_log`). The span is valid during the call.
    virtual void take(std::span<const event> events) = 0;
    /// Takes the number of events that were lost since the last call, more than 0. Their place among the others is not
    /// known; the events that the next call of `take` brings may lie before or after them.
    virtual void lost(std::uint64_t count) = 0;
};

/// A further producer of events, such as a ring that kernels write. The log's thread alone calls it, again and again
/// while the log runs, and once more when the log stops. It must not wait.
class event_source {
public:
    event_source() = default;
    event_source(const event_source&) = delete;
    event_source& operator=(const event_source&) = delete;
    virtual ~event_source() = default;

    /// Moves the oldest events to `out`, at most as many as it holds, and returns their number; adds the number of
    /// events that were lost since the last call to `*lost`. Times are those of the host's clock (`simt::clock_ns` on
    /// the host). Fewer events than `out` holds mean that there are no more at this moment.
    virtual std::size_t drain(std::span<event> out, std::uint64_t* lost) = 0;
};

}  // namespace orchard
