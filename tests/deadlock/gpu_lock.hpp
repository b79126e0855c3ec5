// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include "absl/status/status.h"

namespace orchard::test {

/// Keeps other processes that use this class away from the machine's GPUs, for tests that fill one: holds a lock on a
/// file in the folder for temporary files. Waits for the lock without a limit.
class gpu_lock {
public:
    gpu_lock();
    ~gpu_lock();
    gpu_lock(const gpu_lock&) = delete;
    gpu_lock& operator=(const gpu_lock&) = delete;

    /// Errors: the system's own, if there is no lock.
    [[nodiscard]] const absl::Status& status() const { return status_; }

private:
    int file_ = -1;
    absl::Status status_;
};

}  // namespace orchard::test
