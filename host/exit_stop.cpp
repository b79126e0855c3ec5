// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The list of threads that end when the process exits; see exit_stop.hpp.

#include "host/exit_stop.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace orchard {
namespace {

struct exit_list {
    pid_t process = getpid();
    std::mutex mutex;
    std::vector<exit_stop*> members;
};

/// Returns the list of this process. It is never destroyed: heaps may be, after it would have been.
exit_list& the_list() {
    static auto* const list = new exit_list;
    return *list;
}

}  // namespace

exit_stop::exit_stop(std::function<void()> ask) : ask_{std::move(ask)} {
    exit_list& list = the_list();
    // The backing exists before the threads do. A driver's own handler was thus registered earlier, and runs later.
    static const int registered = std::atexit(&exit_stop::stop_all);
    (void)registered;
    const std::scoped_lock lock(list.mutex);
    list.members.push_back(this);
}

exit_stop::~exit_stop() {
    exit_list& list = the_list();
    const std::scoped_lock lock(list.mutex);
    std::erase(list.members, this);
}

void exit_stop::stop_all() {
    exit_list& list = the_list();
    if (list.process != getpid()) {
        return;
    }
    const std::scoped_lock lock(list.mutex);
    for (exit_stop* const each : list.members) {
        each->ask_();
    }
    const absl::Time end = absl::Now() + absl::Seconds(1);
    for (const exit_stop* const each : list.members) {
        // Pairs with the release in `ended`.
        while (!each->has_ended_.load(std::memory_order_acquire) && absl::Now() < end) {
            absl::SleepFor(absl::Microseconds(20));
        }
    }
}

}  // namespace orchard
