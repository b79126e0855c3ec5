// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The end of the library's threads when the process exits.

#include <atomic>
#include <functional>

namespace orchard {

/// Ends one thread when the process exits (`std::exit`, the return of `main`). A GPU's driver releases its memory then,
/// so that a thread that still read the mailbox, or called the driver, would end the process by a signal.
class exit_stop {
public:
    /// @param ask  tells the thread to end. Called at the exit, on the thread that exits.
    explicit exit_stop(std::function<void()> ask);
    ~exit_stop();
    exit_stop(const exit_stop&) = delete;
    exit_stop& operator=(const exit_stop&) = delete;

    /// The thread calls this last.
    void ended() { has_ended_.store(true, std::memory_order_release); }

private:
    /// Asks every thread of this process, and waits until all have ended, but at most one second: a call of a driver
    /// may block. Does nothing in a forked process, which has none of these threads.
    static void stop_all();

    std::function<void()> ask_;
    std::atomic<bool> has_ended_{false};
};

}  // namespace orchard
