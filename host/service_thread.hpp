// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The thread that runs a service.

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "absl/time/time.h"
#include "host/heap_thread.hpp"
#include "host/segment_service.hpp"

namespace orchard {

/// The thread that runs one segment service. It spins while there is traffic and sleeps if there is none (20 us,
/// doubling up to 1 ms, so that an idle service takes less than 1 % of a core). Between two polls, it runs jobs of
/// other threads.
class service_thread {
public:
    /// @param core   the core to pin the thread to; -1: none. A core that the machine does not have is ignored here;
    ///               `heap::create` refuses it.
    /// @param spin   time without traffic after which the thread sleeps
    /// @param decay  time without traffic after which it gives up unused committed memory; 0: never
    /// @param yields  whether it yields its core after each poll without traffic. For an emulated device, whose lanes
    ///                run on the same cores; a GPU's lanes would wait for the core to come back.
    service_thread(segment_service& service, int core, absl::Duration spin, absl::Duration decay = absl::ZeroDuration(),
                   bool yields = false);
    service_thread(const service_thread&) = delete;
    service_thread& operator=(const service_thread&) = delete;

    /// Stops the thread. No request is answered afterwards.
    void stop() { thread_.stop(); }

    /// Runs `job` on the service's thread, between two polls, and waits for it. If the thread has ended, by `stop`
    /// or at the exit of the process, the caller runs it.
    void run(const std::function<void()>& job);

    /// Has the service update counters that take it time (`segment_service::publish_longest_run`), and waits for it
    /// until `end`. Returns false if the time has passed. Returns true once the thread has been stopped, since the
    /// counters are final then. Any thread may call it, also while `run` waits.
    bool publish(absl::Time end);

    /// Returns how often the thread has slept for lack of traffic.
    [[nodiscard]] std::uint64_t sleeps() const { return sleeps_.get(); }

private:
    void loop();
    void do_job();
    void publish_if_asked();

    segment_service& service_;
    int core_;
    absl::Duration spin_;
    absl::Duration decay_;
    bool yields_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> has_job_{false};
    std::mutex caller_mutex_;                                 // serializes jobs
    std::atomic<const std::function<void()>*> job_{nullptr};  // taken by the thread that runs it
    std::atomic<bool> has_ended_{false};
    std::atomic<std::uint64_t> asked_{0};      // number of calls of `publish`
    std::atomic<std::uint64_t> published_{0};  // number of these that were served
    single_writer_counter sleeps_;
    heap_thread thread_;
};

}  // namespace orchard
