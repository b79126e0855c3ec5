// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "device/failure_record.cuh"
#include "runtime/heap/failure.hpp"

namespace orchard {

/// A failure, and which one of its reason it is.
struct numbered_failure {
    std::uint64_t number = 0;
    failure what{};
};

/// Calls a function of the user's when requests have failed, in a thread of its own: the function may take its time.
class failure_watch {
public:
    using callback = std::function<void(const failure&)>;
    using look = std::function<std::vector<numbered_failure>()>;

    /// @param board  where failures are recorded; looked at every 5 ms
    /// @param now    the newest failure of each reason as they are known now; asked for where there are newer ones than
    ///               were reported
    failure_watch(const device::failure_board& board, look now, callback report);

private:
    void watch(const std::stop_token& stop) const;

    const device::failure_board& board_;
    look now_;
    callback report_;
    std::jthread thread_;
};

}  // namespace orchard
