// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Steps that the examples' runs on the device share.

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/heap/device_memory.hpp"
#include "runtime/heap/launch_status.hpp"

namespace orchard::examples {

/// Makes `array` one of `count` zero elements. Errors: those of `device_array::create`.
template <class T>
absl::Status make(const simt::executor& on, std::uint64_t count, device_array<T>& array) {
    absl::StatusOr<device_array<T>> made = device_array<T>::create(on, count);
    if (!made.ok()) {
        return made.status();
    }
    array = *std::move(made);
    return absl::OkStatus();
}

/// Returns the executor with times of kernels.
inline simt::executor timed(simt::executor on) {
    on.timed = true;
    return on;
}

/// Returns the milliseconds that a call took, by the host's clock.
template <class Call>
double milliseconds_of(const Call& call) {
    const auto began = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

/// Launches, waits, and adds the kernel's time to `us`. Errors: those of the launch.
template <class Kernel>
absl::Status run(const simt::executor& on, simt::grid shape, const Kernel& kernel, double& us) {
    const simt::launch_result done = simt::launch(on, shape, kernel);
    us += done.microseconds;
    return to_status(done);
}

}  // namespace orchard::examples
