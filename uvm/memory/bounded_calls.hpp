// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Calls that may block as long as a kernel runs, made so that the caller waits only until a deadline.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace orchard::detail {

/// Owns one thread that makes the calls. A deadline for the stream alone would not suffice: a CUDA call that only
/// queues work can also block, if another thread is in a call that waits for a kernel. A thread that blocks in CUDA
/// cannot be interrupted, so that the caller must be another thread.
///
///     `call_`    empty --run--> set: the thread makes the call --the call ends--> empty, and `result_` set
///     `run`      waits for that, at most for `patience`; then returns DeadlineExceeded while the call goes on
///
/// Threads: one thread at a time calls `run` and `check_idle`, any thread calls `is_idle`. Cost of a call: two switches
/// of threads.
class bounded_calls {
public:
    using call = std::function<absl::Status()>;

    /// @param patience  the time that `run` waits, at most a day
    /// @param remedy    advice to the user, for the text of DeadlineExceeded
    bounded_calls(absl::Duration patience, std::string remedy);
    /// Waits until the current call has ended, for however long that takes: its memory may be freed afterwards.
    ~bounded_calls();
    bounded_calls(const bounded_calls&) = delete;
    bounded_calls& operator=(const bounded_calls&) = delete;

    /// Returns the result of `made`. Errors: DeadlineExceeded after `patience`. The call then continues, so the memory
    /// that it uses must live until `is_idle`. Until then every further `run` fails at once.
    /// @param what  names the call in the error's text
    absl::Status run(const std::string& what, call made);
    /// Hands `made` to the thread and returns at once; `finish` returns its result. Errors: DeadlineExceeded if a call
    /// is under way; `made` is then not made.
    absl::Status begin(const std::string& what, call made);
    /// Waits for the call that `begin` handed over, and returns its result; OK if there is none. Errors:
    /// DeadlineExceeded after `patience`: the call continues, and `finish` may be called again.
    absl::Status finish(const std::string& what);
    /// Returns OK if `run` would make a call now, otherwise the error that it would return.
    [[nodiscard]] absl::Status check_idle(const std::string& what) const;
    /// Returns false while a call is under way; outside `run`, that is one which exceeded its deadline. Makes no CUDA
    /// call.
    [[nodiscard]] bool is_idle() const;

private:
    /// The thread's loop: makes the calls, one after the other, until the destructor.
    void serve();
    /// Returns the error for a call that was not begun, since an earlier one has not ended.
    [[nodiscard]] absl::Status still_busy(const std::string& what) const;

    absl::Duration patience_;
    std::string remedy_;
    // `mutex_` protects `call_`, `result_` and `ends_`; `changed_` tells of each change of `call_` and `ends_`.
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    call call_;  ///< the call that waits for the thread or runs; empty: none
    absl::Status result_;
    bool ends_ = false;
    // Started last, when all that it uses exists.
    std::thread thread_;
};

}  // namespace orchard::detail
