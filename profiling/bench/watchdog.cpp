// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "profiling/bench/watchdog.hpp"

#include <utility>

namespace orchard::bench {

watchdog::watchdog(absl::Duration deadline, std::function<void()> stuck)
    : thread_{[this, deadline, stuck = std::move(stuck)] {
          std::unique_lock lock(mutex_);
          // Woken early by the destructor alone.
          if (!changed_.wait_for(lock, absl::ToChronoNanoseconds(deadline), [this] { return done_; })) {
              stuck();
          }
      }} {}

watchdog::~watchdog() {
    {
        const std::lock_guard lock(mutex_);
        done_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

}  // namespace orchard::bench
