// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Calls that may block for as long as a kernel runs, made so that the caller waits no longer than a deadline.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace orchard::detail {

/// One thread that makes the calls. A deadline on the stream alone would not do: a CUDA call that only queues work can
/// block, too, while another thread sits in a call that waits for a kernel.
///
/// Threads: `run` and `check_idle` by one at a time, `is_idle` by any. Cost of a call: two switches of threads.
class bounded_calls {
public:
    using call = std::function<absl::Status()>;

    /// @param patience  how long `run` waits, at most a day
    /// @param remedy    what the user can do, for the text of DeadlineExceeded
    bounded_calls(absl::Duration patience, std::string remedy);
    /// Waits until the call under way has ended.
    ~bounded_calls();
    bounded_calls(const bounded_calls&) = delete;
    bounded_calls& operator=(const bounded_calls&) = delete;

    /// Returns what `made` returns. Errors: DeadlineExceeded after `patience`. The call goes on then, so that what it
    /// uses must live until `is_idle`; until then every further `run` fails at once.
    /// @param what  names the call in the error's text
    absl::Status run(const std::string& what, call made);
    /// Ok if `run` would make a call now, otherwise the error that it would return.
    [[nodiscard]] absl::Status check_idle(const std::string& what) const;
    /// Returns false while a call that exceeded its deadline is still under way.
    [[nodiscard]] bool is_idle() const;

private:
    void serve();
    [[nodiscard]] absl::Status still_busy(const std::string& what) const;

    absl::Duration patience_;
    std::string remedy_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    call call_;  ///< waits for the thread, or is under way; empty: none
    absl::Status result_;
    bool ends_ = false;
    std::thread thread_;
};

}  // namespace orchard::detail
