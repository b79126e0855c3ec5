// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A thread of a heap: the thread of a service (`service_thread`) or of growth (`growth`), which must end before the
/// memory that it uses does.
///
///     the heap is destroyed        stop(): asks, and joins for as long as it takes
///     the process exits            stop_all(): asks all threads, and joins those that end within a second
///     a forked process             has no such thread; its list is empty

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

    /// Registers the handlers by which a fork waits for this class's list, before `main`; does nothing the second time.
    /// An object whose lock is taken before the list's registers its own handlers afterwards: a fork runs the newest
    /// first. Returns 0, or an error number.
    static int register_fork_handlers();

private:
    /// Ends the threads of all heaps; registered with `std::atexit`.
    static void stop_all();
    /// Joins the thread, once. Two threads may call it at the same time: the owner's and the one that exits.
    void join();

    std::function<void()> body_;          ///< runs on the thread
    std::function<void()> ask_;           ///< makes `body_` return
    std::atomic<bool> has_ended_{false};  ///< `body_` has returned: a join does not wait
    std::mutex join_mutex_;               ///< guards `thread_` after the constructor
    std::thread thread_;
};

}  // namespace orchard
