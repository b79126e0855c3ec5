// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The end of a driver whose memory a call may still touch.

#include <cstddef>
#include <functional>
#include <memory>

#include "uvm/memory/memory_driver.hpp"

namespace orchard::detail {

/// Gives back through a driver what its user has taken from it.
using driver_release = std::function<void(memory_driver&)>;

/// Calls `release`, if there is one, and destroys `driver`: at once where the driver is idle. A driver that is not,
/// since a call exceeded its deadline, is kept in a list of the process: nothing may be unmapped under a copy that
/// waits. It goes with the next call of this function or of `release_ended_drivers` that finds it idle, or with the
/// process. Null: nothing. Any thread.
void end_driver(std::unique_ptr<memory_driver> driver, driver_release release = {});

/// Releases and destroys the kept drivers that have become idle. Returns how many drivers are still kept. Any thread;
/// waits for no kernel.
std::size_t release_ended_drivers();

}  // namespace orchard::detail
