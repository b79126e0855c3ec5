// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace orchard::bench {

/// Calls `stuck` once, from a thread of its own, unless it is destroyed before `deadline` has passed. The destructor
/// waits for a call that has begun.
class watchdog {
public:
    watchdog(absl::Duration deadline, std::function<void()> stuck);
    watchdog(const watchdog&) = delete;
    watchdog& operator=(const watchdog&) = delete;
    ~watchdog();

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool done_ = false;   ///< under `mutex_`: the destructor has been called
    std::thread thread_;  ///< last, since it uses the other members
};

}  // namespace orchard::bench
