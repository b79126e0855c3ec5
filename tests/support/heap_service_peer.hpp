// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Accesses the threads and the driver of a heap, for tests in which one of them does not do its work.

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/heap/heap_impl.hpp"

namespace orchard {

struct heap_service_peer {
    /// Returns an elastic heap that has its memory from `driver`, which must be of the device that `values` chooses.
    static absl::StatusOr<heap> make(const options& values, std::unique_ptr<memory_driver> driver) {
        auto made = heap::impl::make(values, {}, std::move(driver));
        if (!made.ok()) {
            return made.status();
        }
        return heap(*std::move(made));
    }
    /// Returns a heap whose events go to these listeners.
    static absl::StatusOr<heap> make_heard(const options& values, const event_listeners& listeners) {
        auto made = heap::impl::make(values, {}, nullptr, {}, listeners);
        if (!made.ok()) {
            return made.status();
        }
        return heap(*std::move(made));
    }
    /// Waits until all that the heap has reported has reached the listeners. Returns false if there are none.
    static bool flush_events(heap& h) { return h.impl_->events_ && h.impl_->events_->log().flush(absl::Seconds(60)); }
    /// Returns true if the heap reports to anybody.
    static bool is_heard(heap& h) { return h.impl_->events_ != nullptr; }
    /// Returns the number of segments whose commit has ever begun, including completed commits. Reads host words,
    /// without a call of the driver. For a heap that grows.
    static std::uint64_t begun_segments(heap& h) { return h.impl_->growth_->line().begun.load<simt::order::relaxed>(); }
    /// Runs `job` on the service's thread, which does no other work meanwhile; waits for it. Errors: a thread that does
    /// not turn to it within an hour.
    template <class Job>
    static void run(heap& h, Job job) {
        h.impl_->thread_->run("a test", absl::Hours(1), std::move(job)).IgnoreError();
    }
    /// Lets the service serve what has been posted to it. Only a job on its thread may call it.
    static void poll_once(heap& h) { h.impl_->service_->poll_once(); }
    /// Ends the service's thread: no request is answered any more.
    static void stop(heap& h) { h.impl_->thread_->stop(); }
};

}  // namespace orchard
