// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "device/failure_record.cuh"
#include "runtime/heap/failure.hpp"

namespace orchard {

/// A failure and its number among the failures for the same reason.
struct numbered_failure {
    std::uint64_t number = 0;
    failure what{};
};

/// Calls a user's function when requests have failed. It does so in a thread of its own, because the function may take
/// long.
class failure_watch {
public:
    using callback = std::function<void(const failure&)>;
    using look = std::function<std::vector<numbered_failure>()>;

    /// @param board  where failures are recorded; read every 5 ms
    /// @param now    returns the newest failure of each reason; called if there are failures that were not yet reported
    failure_watch(const device::failure_board& board, look now, callback report);

private:
    void watch(const std::stop_token& stop) const;

    const device::failure_board& board_;
    look now_;
    callback report_;
    std::jthread thread_;
};

}  // namespace orchard
