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

namespace orchard {
namespace {

struct thread_list {
    std::mutex mutex;
    std::vector<heap_thread*> members;
};

/// Returns the list of this process. It is never destroyed: heaps may be, after it would have been. A forked process
/// begins with an empty list, and with a mutex that no thread of its parent holds.
thread_list*& the_list() {
    static auto* list = new thread_list;
    static const int registered = pthread_atfork(nullptr, nullptr, [] { the_list() = new thread_list; });
    (void)registered;
    return list;
}

}  // namespace

heap_thread::heap_thread(std::function<void()> body, std::function<void()> ask)
    : body_{std::move(body)}, ask_{std::move(ask)} {
    thread_list& list = *the_list();
    // The backing exists before the threads do. A driver's own handler was thus registered earlier, and runs later.
    static const int registered = std::atexit(&heap_thread::stop_all);
    (void)registered;
    const std::scoped_lock lock(list.mutex);
    list.members.reserve(list.members.size() + 1);
    thread_ = std::thread([this] {
        body_();
        has_ended_.store(true, std::memory_order_release);  // pairs with the acquire in `stop_all`
    });
    list.members.push_back(this);
}

heap_thread::~heap_thread() {
    stop();
    thread_list& list = *the_list();
    const std::scoped_lock lock(list.mutex);
    std::erase(list.members, this);
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

void heap_thread::stop_all() {
    thread_list& list = *the_list();
    const std::scoped_lock lock(list.mutex);
    for (heap_thread* const each : list.members) {
        each->ask_();
    }
    const absl::Time end = absl::Now() + absl::Seconds(1);
    for (heap_thread* const each : list.members) {
        bool has_ended = false;
        while (!(has_ended = each->has_ended_.load(std::memory_order_acquire)) && absl::Now() < end) {
            absl::SleepFor(absl::Microseconds(20));
        }
        if (has_ended) {
            each->join();
        }
    }
}

}  // namespace orchard
