// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The list of drivers whose users have ended; ended_drivers.hpp says why they are kept.
///
///     end_driver(d)       release_ended_drivers(), then
///                           d is idle    release, destroy
///                           d is busy    into the list
///     release_ended_drivers()
///                         each idle one in the list    release, destroy
///
/// No thread watches the list: the next heap that is created or destroyed looks at it. Memory of a driver that stays
/// busy is thus held until then, or until the process ends.

#include "uvm/memory/ended_drivers.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

namespace orchard::detail {
namespace {

/// A driver whose user has ended, and the release that is still to be made.
struct ended_driver {
    std::unique_ptr<memory_driver> driver;
    driver_release release;
};

/// Releases the memory, then destroys the driver. Called without the mutex, because both may take long.
void finish(ended_driver e) {
    if (e.release) {
        e.release(*e.driver);
    }
}

/// The drivers that were not idle when their users ended.
struct kept_drivers {
    std::mutex mutex;
    std::vector<ended_driver> all;
};

/// Never destroyed. A driver that is busy when the process ends cannot be destroyed, and heaps may end later than
/// static objects.
kept_drivers& kept() {
    static auto* const drivers = new kept_drivers;
    return *drivers;
}

}  // namespace

/// The driver may become idle between the test and the entry into the list. It then stays there until the next call,
/// which finds it idle.
void end_driver(std::unique_ptr<memory_driver> driver, driver_release release) {
    // Drivers that were kept earlier may have become idle since.
    release_ended_drivers();
    if (driver == nullptr) {
        return;
    }
    ended_driver e{std::move(driver), std::move(release)};
    // An idle driver stays idle: only its user could make calls, and that has ended.
    if (e.driver->is_idle()) {
        finish(std::move(e));
        return;
    }
    const std::scoped_lock lock(kept().mutex);
    kept().all.push_back(std::move(e));
}

std::size_t release_ended_drivers() {
    // The idle ones leave the list with the mutex held, and are finished without it.
    std::vector<ended_driver> idle;
    std::size_t busy = 0;
    {
        const std::scoped_lock lock(kept().mutex);
        auto& all = kept().all;
        // Stable, so that drivers are released in the order in which their users ended.
        const auto first_idle =
            std::stable_partition(all.begin(), all.end(), [](const ended_driver& e) { return !e.driver->is_idle(); });
        std::move(first_idle, all.end(), std::back_inserter(idle));
        all.erase(first_idle, all.end());
        busy = all.size();
    }
    // A release can enter CUDA and take long; other threads that end drivers do not wait for it.
    for (ended_driver& e : idle) {
        finish(std::move(e));
    }
    return busy;
}

}  // namespace orchard::detail
