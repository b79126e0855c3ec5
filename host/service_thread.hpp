// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"
#include "host/segment_service.hpp"

namespace orchard {

/// Runs one segment service: spins while there is traffic, sleeps when there is none (20 us, doubling up to 1 ms, so
/// that an idle service takes under 1 % of a core), and runs jobs of other threads between two polls.
class service_thread {
public:
    /// @param core  to pin to; -1: none. A core that the machine does not have is ignored.
    /// @param spin  how long it polls without traffic before its first sleep
    /// @param decay how long without traffic before it gives back what is committed and unused; 0: never
    service_thread(segment_service& service, int core, absl::Duration spin,
                   absl::Duration decay = absl::ZeroDuration());
    ~service_thread() { stop(); }
    service_thread(const service_thread&) = delete;
    service_thread& operator=(const service_thread&) = delete;

    /// Ends the thread. Nothing is answered afterwards.
    void stop();

    /// Runs `job` on the service's thread, between two polls, and waits for it.
    void run(const std::function<void()>& job);

    /// Has the service say what takes it time to know (`segment_service::publish_longest_run`), and waits for it until
    /// `end`; false where it has not by then. True once the thread has ended: then it has been said for good. Any
    /// thread, also while `run` waits.
    bool publish(absl::Time end);

    /// Times the service slept for lack of traffic.
    [[nodiscard]] std::uint64_t sleeps() const { return sleeps_.get(); }

private:
    void loop();
    void do_job();
    void publish_if_asked();

    segment_service& service_;
    int core_;
    absl::Duration spin_;
    absl::Duration decay_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> has_job_{false};
    std::mutex caller_mutex_;  // one job at a time
    const std::function<void()>* job_ = nullptr;
    std::atomic<std::uint64_t> asked_{0};      // of `publish`
    std::atomic<std::uint64_t> published_{0};  // of those, answered
    single_writer_counter sleeps_;
    std::thread thread_;
};

}  // namespace orchard
