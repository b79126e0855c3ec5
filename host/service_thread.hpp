// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The thread that runs a service.
///
///     loop    | job? | publish? | poll_once: requests ... |   |   traffic: at once again
///                                                             |   no traffic for `spin`: sleeps for `nap_after`
///                                                             |   no traffic for `decay`: gives up unused memory
///
/// Other threads call few functions of the service themselves; for the rest they hand this thread a job, or a request
/// to publish counters. A thread that sleeps sees them when it wakes, up to 1 ms later.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "host/heap_thread.hpp"
#include "host/segment_service.hpp"

namespace orchard {

/// The thread that runs one segment service. It spins while there is traffic and sleeps if there is none. Between two
/// polls, it runs a job of another thread.
class service_thread {
public:
    /// @param core   the core to pin the thread to; -1: none. A core that the machine does not have is ignored here;
    ///               `heap::create` rejects it.
    /// @param spin   time without traffic after which the thread sleeps
    /// @param decay  time without traffic after which it gives up unused committed memory; 0: never
    /// @param yields  whether it yields its core after each poll without traffic. For an emulated device, whose lanes
    ///                run on the same cores; a GPU's lanes would wait for the core to come back.
    service_thread(segment_service& service, int core, absl::Duration spin, absl::Duration decay = absl::ZeroDuration(),
                   bool yields = false);
    service_thread(const service_thread&) = delete;
    service_thread& operator=(const service_thread&) = delete;

    /// Returns how long a thread sleeps at a time that has had no traffic for `idle`: a thousandth of that, at least 20
    /// us and at most 1 ms. A request after a pause is thus late by a thousandth of the pause, and a service that is
    /// idle for long takes less than 1 % of a core.
    static absl::Duration nap_after(absl::Duration idle);

    /// Stops the thread. No request is answered afterwards.
    void stop() { thread_.stop(); }

    /// Runs `job` on the service's thread, between two polls, and waits for it; returns OK. If the thread has ended, by
    /// `stop` or at the exit of the process, the caller runs it.
    ///
    /// Errors: DeadlineExceeded, with the name `call`, if the thread has not begun the job within `limit`; the job is
    /// then not run at all. A job that has begun is waited for, since it uses what is the caller's: a job accesses
    /// memory alone, as the service does, and waits for nothing.
    absl::Status run(std::string_view call, absl::Duration limit, std::function<void()> job);

    /// Has the service's thread run `job`, after the jobs of earlier calls, and does not wait for it. For changes that
    /// must take place, however late. `job` must own all that it uses, but for the service.
    void post(std::function<void()> job);

    /// Has the service update counters that take it time (`segment_service::publish_longest_run`), and waits for it
    /// until `end`, by `monotonic_now`. Returns false if the time has passed. Returns true once the thread has been
    /// stopped, since the counters are final then. Any thread may call it, also while `run` waits.
    bool publish(absl::Time end);

    /// Returns how often the thread has slept for lack of traffic.
    [[nodiscard]] std::uint64_t sleeps() const { return sleeps_.get(); }

private:
    /// A job, in `jobs_` until it begins.
    struct queued_job {
        std::function<void()> work;  ///< runs once
        bool is_done = false;        ///< guarded by `mutex_`

        explicit queued_job(std::function<void()> to_do) : work{std::move(to_do)} {}
    };

    // The steps of the thread; each is described at its definition.
    void loop();
    bool do_job();
    void add(std::shared_ptr<queued_job> job);
    void publish_if_asked();

    segment_service& service_;  ///< used by this thread alone, until it has ended
    int core_;
    absl::Duration spin_;  ///< as the constructor's arguments; `decay_` is infinite for "never"
    absl::Duration decay_;
    bool yields_;
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::condition_variable changed_;               // a job is done
    std::deque<std::shared_ptr<queued_job>> jobs_;  // guarded by `mutex_`, as the next two
    bool is_working_ = false;                       // a job runs
    bool has_ended_ = false;                        // callers run the jobs
    std::atomic<bool> has_job_{false};              // spares the service the mutex while there is no job
    std::atomic<std::uint64_t> asked_{0};           // number of calls of `publish`
    std::atomic<std::uint64_t> published_{0};       // number of these that were served
    single_writer_counter sleeps_;
    heap_thread thread_;
};

}  // namespace orchard
