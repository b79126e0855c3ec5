// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The threads of heaps, and their end when the process exits; see heap_thread.hpp.

#include "host/heap_thread.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "host/monotonic_clock.hpp"

namespace orchard {
namespace {

// All threads of heaps in this process. Neither object needs a constructor or a destructor to run: heaps may exist
// before and after the static objects of this file would.
constinit std::mutex list_mutex;
constinit std::vector<heap_thread*>* list = nullptr;  // made for the first thread; destroyed in a forked process alone

// The handlers of a fork: `prepare` in the parent, then `parent` in the parent and `child` in the child. The child has
// a copy of the mutex as it was at the fork. It is held by the thread that forked, which is the only thread of the
// child and may therefore unlock it.
void lock_list() { list_mutex.lock(); }
void unlock_list() { list_mutex.unlock(); }

/// In a forked process: forgets the parent's threads, which are not here.
void forget_list() {
    delete std::exchange(list, nullptr);
    list_mutex.unlock();
}

/// A fork waits until no thread is in the list's code. Registered before `main`: later, a fork in the middle of the
/// registration would leave the forked process to wait for the thread that was registering.
[[maybe_unused]] const int fork_handlers = heap_thread::register_fork_handlers();

}  // namespace

int heap_thread::register_fork_handlers() {
    static const int result = pthread_atfork(lock_list, unlock_list, forget_list);
    return result;
}

/// The lock is held until the thread is in the list: an exit in between would miss the thread. Room in the list is
/// reserved before the thread exists, so that nothing can fail afterwards and leave a thread that no list knows.
heap_thread::heap_thread(std::function<void()> body, std::function<void()> ask)
    : body_{std::move(body)}, ask_{std::move(ask)} {
    const std::scoped_lock lock(list_mutex);
    if (list == nullptr) {
        list = new std::vector<heap_thread*>;
        // The backing exists before the threads do. A driver's own handler was thus registered earlier, and runs later.
        std::atexit(&heap_thread::stop_all);
    }
    list->reserve(list->size() + 1);
    thread_ = std::thread([this] {
        body_();
        has_ended_.store(true, std::memory_order_release);  // pairs with the acquire in `stop_all`
    });
    list->push_back(this);
}

/// The thread is joined before it leaves the list. An exit at the same time finds it there and joins it, or waits in
/// `join` until the owner has.
heap_thread::~heap_thread() {
    stop();
    const std::scoped_lock lock(list_mutex);
    if (list != nullptr) {
        std::erase(*list, this);
    }
}

void heap_thread::stop() {
    ask_();
    join();
}

void heap_thread::join() {
    const std::scoped_lock lock(join_mutex_);  // the exit of the process joins beside the owner
    if (thread_.joinable()) {
        thread_.join();
    }
}

/// Asks all threads before it waits for the first: they end side by side, and the second is for all of them together. A
/// thread that does not end in time is left running, since a call of a driver cannot be broken off.
///
/// The list stays locked until the threads have ended: a thread that creates or destroys a heap during the exit waits.
void heap_thread::stop_all() {
    const std::scoped_lock lock(list_mutex);
    if (list == nullptr) {
        return;
    }
    for (heap_thread* const each : *list) {
        each->ask_();
    }
    const absl::Time end = monotonic_now() + absl::Seconds(1);
    for (heap_thread* const each : *list) {
        bool has_ended = false;
        // Polls, because the thread may be in a call of a driver, where nothing could wake a waiting join at the
        // deadline.
        while (!(has_ended = each->has_ended_.load(std::memory_order_acquire)) && monotonic_now() < end) {
            absl::SleepFor(absl::Microseconds(20));
        }
        if (has_ended) {
            each->join();
        }
    }
}

}  // namespace orchard
