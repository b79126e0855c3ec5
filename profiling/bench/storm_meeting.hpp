// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The meeting point of the threads of `orchard bench storm`. The number of members decreases when streams end, and the
/// caller acts while all others wait.
///
///     caller        call ...............| all wait: the caller acts | dismiss
///     member 1      works  | attend ................................|  works
///     member 2      works ......| attend ...........................|  works

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace orchard::bench::storm {

/// A meeting point at which threads wait after one thread calls them, until it dismisses them. The actions of each
/// thread before the meeting happen before `call` returns, and the caller's actions before `dismiss` happen before any
/// thread continues.
class meeting {
public:
    /// @param members  threads that attend, without the caller
    explicit meeting(std::size_t members) : members_{members} {}

    /// Caller: waits until all members that have not left have arrived.
    void call() {
        std::unique_lock lock(mutex_);
        called_.store(true, std::memory_order_relaxed);
        changed_.wait(lock, [&] { return present_ == members_; });
    }
    /// Caller: lets the threads continue.
    void dismiss() {
        const std::scoped_lock lock(mutex_);
        called_.store(false, std::memory_order_relaxed);
        present_ = 0;
        ++held_;
        changed_.notify_all();
    }

    /// Member: returns true if it must attend. Relaxed: a hint; the mutex orders the actions that follow.
    [[nodiscard]] bool is_called() const { return called_.load(std::memory_order_relaxed); }
    /// Member that is called: waits until it is dismissed.
    void attend() {
        std::unique_lock lock(mutex_);
        ++present_;
        changed_.notify_all();
        changed_.wait(lock, [&, held = held_] { return held_ != held; });
    }
    /// Member: attends no further meeting.
    void leave() {
        const std::scoped_lock lock(mutex_);
        --members_;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t members_;              ///< threads that have not left
    std::size_t present_ = 0;          ///< members that wait
    std::size_t held_ = 0;             ///< completed meetings
    std::atomic<bool> called_{false};  ///< a hint for members that run
};

}  // namespace orchard::bench::storm
