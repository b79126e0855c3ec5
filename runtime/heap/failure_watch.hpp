// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The thread that calls the function of `heap::on_failure`.

#include <functional>
#include <thread>
#include <vector>

#include "device/state/failure_record.cuh"
#include "runtime/heap/failure.hpp"

namespace orchard {

/// A failure and its number among the failures for the same reason, from 1 on. The number tells whether a failure has
/// been reported.
struct numbered_failure {
    std::uint64_t number = 0;
    failure what{};
};

/// Calls a user's function when requests have failed. It does so in a thread of its own, because the function may take
/// long, and because no thread of the heap may depend on code of the application.
///
///     every 5 ms    reads the board: is there a failure that was not reported, of a reason that is due?
///       if so       gets the newest failure of each reason with counts and levels (`look`), and reports those that
///                   are due; a reason that was reported is due again a second later
///
/// The destructor asks the thread to end and waits for it, also for a report that is being made.
class failure_watch {
public:
    using callback = std::function<void(const failure&)>;
    using look = std::function<std::vector<numbered_failure>()>;

    /// Starts the thread. Errors: throws std::system_error if no thread can be started.
    /// @param board  where failures are recorded; read every 5 ms; must outlive this object
    /// @param now  returns the newest failure of each reason; called if there are failures that were not yet reported
    /// @param report  called with each failure that is due; must not throw
    failure_watch(const device::failure_board& board, look now, callback report);

private:
    /// The thread's loop.
    void watch(const std::stop_token& stop) const;

    const device::failure_board& board_;
    look now_;
    callback report_;
    // The last member: it starts when all others exist, and is joined before any of them ends.
    std::jthread thread_;
};

}  // namespace orchard
