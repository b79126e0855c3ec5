// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The thread of a service; see service_thread.hpp.

#include "host/service_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "host/monotonic_clock.hpp"

namespace orchard {
namespace {

/// A value of `published_` that serves all later calls of `publish`.
constexpr std::uint64_t ever = ~std::uint64_t{0};

}  // namespace

service_thread::service_thread(segment_service& service, int core, absl::Duration spin, absl::Duration decay,
                               bool yields)
    : service_{service},
      core_{core},
      spin_{spin},
      decay_{decay == absl::ZeroDuration() ? absl::InfiniteDuration() : decay},
      yields_{yields},
      thread_{[this] { loop(); }, [this] { stopping_.store(true, std::memory_order_release); }} {}

absl::Duration service_thread::nap_after(absl::Duration idle) {
    return std::clamp(idle / 1000, absl::Microseconds(20), absl::Milliseconds(1));
}

/// The turns of the service, from the start of the thread to `stop`. `busy_at` is the time of the last traffic:
/// infinite while there is traffic, when the time is not needed, and read at the first poll without any.
///
/// A core that cannot be set is not an error here: the service works on any core.
void service_thread::loop() {
    if (core_ >= 0 && core_ < CPU_SETSIZE) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<std::size_t>(core_), &set);
        pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    }
    if (service_.reporting().observer != nullptr) {
        service_.reporting().observer->thread_begins("service");
    }
    // Reading the clock costs more than an empty poll, so that only every 64th empty poll does.
    constexpr int polls_per_look = 64;
    bool has_slept = false;  // since the last traffic
    absl::Time busy_at = monotonic_now();
    int polls = 0;
    bool is_decayed = false;
    while (!stopping_.load(std::memory_order_acquire)) {
        // Relaxed: says that a look is worthwhile. The mutex orders the jobs.
        if (has_job_.load(std::memory_order_relaxed) && do_job()) {
            busy_at = monotonic_now();  // the effect of the job, such as a reserve, must not be undone at once
            is_decayed = false;
        }
        publish_if_asked();
        if (service_.poll_once() != 0) {
            has_slept = false;
            polls = polls_per_look;  // read the clock at the first empty poll
            busy_at = absl::InfiniteFuture();
            is_decayed = false;
            continue;
        }
        if (busy_at == absl::InfiniteFuture()) {
            busy_at = monotonic_now();
        }
        // The lanes of an emulated device need the core in order to make the next request.
        if (yields_) {
            std::this_thread::yield();
        }
        // A thread that has slept looks at the clock after each poll: it has time, and goes back to sleep after one
        // empty poll.
        if (++polls < polls_per_look && !has_slept) {
            continue;
        }
        polls = 0;
        const absl::Duration idle = monotonic_now() - busy_at;
        if (idle >= decay_ && !is_decayed) {
            // If too many decommits are under way, the rest follows after the next sleep.
            is_decayed = service_.decay();
        }
        if (idle >= spin_) {
            sleeps_.add(1);
            absl::SleepFor(nap_after(idle));
            has_slept = true;
        }
    }
    // The thread ends: its counters are final.
    service_.publish_longest_run();
    published_.store(ever, std::memory_order_release);  // pairs with the acquire in `publish`
    {
        const std::scoped_lock lock(mutex_);
        has_ended_ = true;  // a job that is queued from now on is run by its caller
    }
    while (do_job()) {
    }
}

/// Serves all calls of `publish` up to now by one computation. Cost without a call: two loads.
void service_thread::publish_if_asked() {
    const std::uint64_t asked = asked_.load(std::memory_order_relaxed);
    if (asked != published_.load(std::memory_order_relaxed)) {
        service_.publish_longest_run();
        published_.store(asked, std::memory_order_release);  // pairs with the acquire in `publish`
    }
}

/// Looks every 20 us, and takes no lock. A call is served before the next turn, and does not queue behind the jobs of
/// other threads.
bool service_thread::publish(absl::Time end) {
    constexpr absl::Duration between_looks = absl::Microseconds(20);
    const std::uint64_t asked = asked_.fetch_add(1, std::memory_order_relaxed) + 1;
    // Pairs with the releases above: acquires the counters.
    while (published_.load(std::memory_order_acquire) < asked) {
        if (monotonic_now() >= end) {
            return false;
        }
        absl::SleepFor(between_looks);
    }
    return true;
}

/// Runs the first job, and returns true; returns false if there is none, or if another thread runs one: that thread
/// then calls this function again. The service's thread calls it once in each turn, so that a turn lies between two
/// jobs of one caller (`heap::impl::take_turns`). After its end, callers do.
bool service_thread::do_job() {
    std::unique_lock lock(mutex_);
    if (jobs_.empty() || is_working_) {
        return false;
    }
    const std::shared_ptr<queued_job> job = std::move(jobs_.front());
    jobs_.pop_front();
    has_job_.store(!jobs_.empty(), std::memory_order_relaxed);
    is_working_ = true;
    lock.unlock();
    job->work();
    lock.lock();
    is_working_ = false;
    job->is_done = true;
    changed_.notify_all();
    return true;
}

/// Queues a job. If the service's thread has ended, the calling thread runs the queue's jobs, its own included, unless
/// another caller is running them; that one then takes the next.
void service_thread::add(std::shared_ptr<queued_job> job) {
    std::unique_lock lock(mutex_);
    jobs_.push_back(std::move(job));
    has_job_.store(true, std::memory_order_relaxed);
    const bool by_caller = has_ended_;
    lock.unlock();
    while (by_caller && do_job()) {
    }
}

void service_thread::post(std::function<void()> job) { add(std::make_shared<queued_job>(std::move(job))); }

/// A job that is still in the queue at the deadline is taken out, so that it never runs after its caller has returned.
/// If it is not in the queue, it has begun, and is waited for without a limit: it uses the caller's variables.
absl::Status service_thread::run(std::string_view call, absl::Duration limit, std::function<void()> job) {
    const auto mine = std::make_shared<queued_job>(std::move(job));
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(limit);
    add(mine);
    std::unique_lock lock(mutex_);
    const auto is_done = [&] { return mine->is_done; };
    if (!changed_.wait_until(lock, end, is_done)) {
        if (std::erase(jobs_, mine) != 0) {
            return absl::DeadlineExceededError(absl::StrFormat(
                "%s: the service's thread did not turn to it within %s; give the thread a core of its own (option "
                "service_core), or raise the option request_timeout",
                absl::string_view(call.data(), call.size()), absl::FormatDuration(limit)));
        }
        changed_.wait(lock, is_done);
    }
    return absl::OkStatus();
}

}  // namespace orchard
