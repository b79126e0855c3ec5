// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Destroys drivers whose memory a call may still access.

#include <cstddef>
#include <functional>
#include <memory>

#include "uvm/memory/memory_driver.hpp"

namespace orchard::detail {

/// Releases, through a driver, the memory that its user has taken from it.
using driver_release = std::function<void(memory_driver&)>;

/// Calls `release`, if there is one, and destroys `driver`; does nothing for null. If the driver is idle, this happens
/// at once. If a call exceeded its deadline, the driver is not idle, and its memory must not be unmapped while a copy
/// may still use it. The driver is then kept in a list of the process until a call of this function or of
/// `release_ended_drivers` finds it idle, or until the process ends. Any thread.
void end_driver(std::unique_ptr<memory_driver> driver, driver_release release = {});

/// Releases and destroys the kept drivers that have become idle. Returns how many drivers are still kept. Any thread;
/// waits for no kernel.
std::size_t release_ended_drivers();

}  // namespace orchard::detail
