// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A thread of a heap.

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace orchard {

/// Runs one thread. It ends when its owner stops it, or when the process exits (`std::exit`, the return of `main`). A
/// GPU's driver releases its memory at the exit, so that a thread that still read the mailbox, or called the driver,
/// would end the process by a signal.
///
/// The exit waits at most one second for all threads: a call of a driver may block. It does nothing in a forked
/// process, which has none of these threads.
class heap_thread {
public:
    /// @param body  what the thread does
    /// @param ask   tells `body` to return. Any thread may call it, several times, also after `body` has returned.
    /// Errors: throws std::system_error if a thread cannot be started.
    heap_thread(std::function<void()> body, std::function<void()> ask);
    ~heap_thread();
    heap_thread(const heap_thread&) = delete;
    heap_thread& operator=(const heap_thread&) = delete;

    /// Asks the thread to end, and waits until it has.
    void stop();

private:
    static void stop_all();
    void join();

    std::function<void()> body_;
    std::function<void()> ask_;
    std::atomic<bool> has_ended_{false};
    std::mutex join_mutex_;
    std::thread thread_;
};

}  // namespace orchard
