// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What a heap reports of itself, and to whom: its event log and its marks for tools.

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "host/events/event_log.hpp"
#include "host/events/reports.hpp"
#include "runtime/nvtx/heap_marks.hpp"

namespace orchard {

/// The listeners of a heap besides tools, and further producers of events.
struct event_listeners {
    std::vector<event_sink*> sinks;      ///< must outlive the heap
    std::vector<event_source*> sources;  ///< producers besides the heap's own threads; must outlive the heap
    bool may_come = false;               ///< sinks may be added later: those of a trace that a reader starts
    event_log_settings log;

    [[nodiscard]] bool any() const { return may_come || !sinks.empty(); }
};

/// The event log of a heap with all that listens to it. A heap has this object only if somebody listens.
class heap_events {
public:
    /// Returns the object; null if nobody listens: no listener, and no tool, or `for_tools` is false.
    /// @param range  of the heap
    /// @param slots  of the mailbox
    /// @param now  returns the values of the counters; called on the log's thread until `stop`
    static std::unique_ptr<heap_events> make(const event_listeners& listeners, bool for_tools,
                                             nvtx::address_range range, std::uint32_t slots,
                                             std::function<nvtx::counter_values()> now);

    /// Returns what the service, and growth, report to. Before `start`.
    reports of_service();
    reports of_growth();
    void start() { log_.start(); }
    /// Stops the log after all events have reached the sinks. The heap's threads must have ended.
    void stop() { log_.stop(); }

    [[nodiscard]] event_log& log() { return log_; }
    /// Returns the marks of memory; null if no tool listens.
    [[nodiscard]] nvtx::heap_memory_marks* memory() { return tools_ ? &tools_->memory : nullptr; }

    /// Reports a call of the program, on its thread: `begin` returns the time, for `end`; `end` reports one event for
    /// each element, whose time and duration it sets.
    std::uint64_t begin(activity what, std::uint64_t amount);
    void end(activity what, std::uint64_t amount, std::uint64_t begun_ns, std::vector<event> events);

private:
    /// What a tool is told.
    struct tools {
        tools(nvtx::address_range range, std::uint32_t slots, std::function<nvtx::counter_values()> now)
            : memory{range}, ranges{slots}, sink{memory, ranges, std::move(now)} {}
        nvtx::heap_memory_marks memory;
        nvtx::heap_ranges ranges;
        nvtx::heap_sink sink;
    };

    explicit heap_events(const event_log_settings& settings) : log_{settings} {}

    std::unique_ptr<tools> tools_;  // before the log, whose thread uses it
    event_log log_;
};

}  // namespace orchard
