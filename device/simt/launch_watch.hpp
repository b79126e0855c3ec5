// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A function that is called at each launch, so that a program can mark its phases for profilers. None by default.

#include <atomic>

namespace orchard::simt {

/// Two functions that `launch` calls on the launching thread, before the kernel is launched and after it has ended.
/// `enqueue` calls the second one on CUDA when the kernel is launched.
/// @param kernel  a text with the type of the kernel: the compiler's name of a function whose parameter it is
struct launch_watch {
    void (*begins)(const char* kernel);
    void (*ends)();
};

/// Null: nobody is told. Set once, before the launches; what it points to stays.
inline std::atomic<const launch_watch*> watched_launches{nullptr};

/// Tells of one launch, from its constructor to its destructor. Cost if nobody is told: a load.
class launch_notice {
public:
    explicit launch_notice(const char* kernel) : watch_{watched_launches.load(std::memory_order_acquire)} {
        if (watch_ != nullptr) {
            watch_->begins(kernel);
        }
    }
    ~launch_notice() {
        if (watch_ != nullptr) {
            watch_->ends();
        }
    }
    launch_notice(const launch_notice&) = delete;
    launch_notice& operator=(const launch_notice&) = delete;

private:
    const launch_watch* watch_;
};

}  // namespace orchard::simt
