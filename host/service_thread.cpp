// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The thread of a service; see service_thread.hpp.

#include "host/service_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "absl/time/clock.h"

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

void service_thread::loop() {
    if (core_ >= 0 && core_ < CPU_SETSIZE) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<std::size_t>(core_), &set);
        pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    }
    constexpr absl::Duration first_nap = absl::Microseconds(20);
    constexpr absl::Duration longest_nap = absl::Milliseconds(1);
    // Reading the clock costs more than an empty poll, so that only every 64th empty poll does.
    constexpr int polls_per_look = 64;
    absl::Duration nap = first_nap;
    absl::Time busy_at = absl::Now();
    int polls = 0;
    bool is_decayed = false;
    while (!stopping_.load(std::memory_order_acquire)) {
        if (has_job_.load(std::memory_order_acquire)) {
            do_job();
            busy_at = absl::Now();  // the effect of the job, such as a reserve, must not be undone at once
            is_decayed = false;
        }
        publish_if_asked();
        if (service_.poll_once() != 0) {
            nap = first_nap;
            polls = polls_per_look;  // read the clock at the first empty poll
            busy_at = absl::InfiniteFuture();
            is_decayed = false;
            continue;
        }
        if (busy_at == absl::InfiniteFuture()) {
            busy_at = absl::Now();
        }
        if (yields_) {
            std::this_thread::yield();
        }
        if (++polls < polls_per_look && nap == first_nap) {
            continue;
        }
        polls = 0;
        const absl::Duration idle = absl::Now() - busy_at;
        if (idle >= decay_ && !is_decayed) {
            // If too many decommits are under way, the rest follows after the next sleep.
            is_decayed = service_.decay();
        }
        if (idle >= spin_) {
            sleeps_.add(1);
            absl::SleepFor(nap);
            nap = std::min(nap * 2, longest_nap);
        }
    }
    service_.publish_longest_run();
    published_.store(ever, std::memory_order_release);  // pairs with the acquire in `publish`
    // Of this store and the load of `job_`, and the two of `run` the other way round, one load sees the other's store:
    // a job that comes now is not left. All four are sequentially consistent for that.
    has_ended_.store(true);
    do_job();
}

void service_thread::publish_if_asked() {
    const std::uint64_t asked = asked_.load(std::memory_order_relaxed);
    if (asked != published_.load(std::memory_order_relaxed)) {
        service_.publish_longest_run();
        published_.store(asked, std::memory_order_release);  // pairs with the acquire in `publish`
    }
}

bool service_thread::publish(absl::Time end) {
    constexpr absl::Duration between_looks = absl::Microseconds(20);
    const std::uint64_t asked = asked_.fetch_add(1, std::memory_order_relaxed) + 1;
    // Pairs with the releases above: acquires the counters.
    while (published_.load(std::memory_order_acquire) < asked) {
        if (absl::Now() >= end) {
            return false;
        }
        absl::SleepFor(between_looks);
    }
    return true;
}

void service_thread::do_job() {
    if (const std::function<void()>* const job = job_.exchange(nullptr); job != nullptr) {
        (*job)();
        has_job_.store(false, std::memory_order_release);
        has_job_.notify_one();
    }
}

void service_thread::run(const std::function<void()>& job) {
    const std::scoped_lock lock(caller_mutex_);
    // `job_` carries the job to the thread that runs it, the flag its effects back: stores release, loads acquire.
    has_job_.store(true, std::memory_order_release);
    job_.store(&job);
    if (has_ended_.load()) {
        do_job();
    }
    has_job_.wait(true, std::memory_order_acquire);
}

}  // namespace orchard
