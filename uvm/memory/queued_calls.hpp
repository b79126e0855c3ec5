// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Calls that nobody waits for, made in their order by a thread of their own.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"

namespace orchard::detail {

/// Owns the thread. A call that only queues work in CUDA can block all the same, if another thread is in a call that
/// waits for a kernel; the thread that hands the call over goes on meanwhile.
///
/// Threads: any, at the same time.
class queued_calls {
public:
    using call = std::function<absl::Status()>;

    queued_calls() : thread_{[this] { serve(); }} {}
    /// Waits for the call under way. Those behind it are not made.
    ~queued_calls() {
        {
            const std::scoped_lock lock(mutex_);
            calls_.resize(calls_.empty() ? 0 : 1);
            ends_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    queued_calls(const queued_calls&) = delete;
    queued_calls& operator=(const queued_calls&) = delete;

    /// Hands a call over, and does not wait for it.
    void push(call made) {
        {
            const std::scoped_lock lock(mutex_);
            calls_.push_back(std::move(made));
        }
        changed_.notify_all();
    }
    /// Returns true if all calls have ended. Never waits for one.
    [[nodiscard]] bool is_idle() const {
        const std::scoped_lock lock(mutex_);
        return calls_.empty();
    }
    /// Waits until all calls that were handed over have ended. Returns the first error since the last `finish`.
    absl::Status finish() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return calls_.empty(); });
        return std::exchange(result_, absl::OkStatus());
    }

private:
    /// The thread's loop. The call under way stays the first of `calls_` until it has ended.
    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return !calls_.empty() || ends_; });
            if (calls_.empty()) {
                return;
            }
            const call& first = calls_.front();  // a deque keeps its place when others are added
            lock.unlock();
            const absl::Status s = first();
            lock.lock();
            result_.Update(s);
            calls_.pop_front();
            changed_.notify_all();
        }
    }

    // `mutex_` protects all of these; `changed_` tells of each change.
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<call> calls_;
    absl::Status result_;  ///< the first error that no `finish` has returned
    bool ends_ = false;
    std::thread thread_;  // started last, when all that it uses exists
};

}  // namespace orchard::detail
