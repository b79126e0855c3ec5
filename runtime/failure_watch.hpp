// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "device/simt/atomic.cuh"
#include "runtime/failure.hpp"

namespace orchard {

/// Calls a function of the user's when requests have failed, in a thread of its own: the function may take its time.
class failure_watch {
public:
    using callback = std::function<void(const failure&)>;
    using look = std::function<std::optional<failure>()>;

    /// @param signal  becomes 1 at the first failure
    /// @param now     the failure as it is known now
    failure_watch(const simt::host_word<std::uint32_t>& signal, look now, callback report);

private:
    void watch(const std::stop_token& stop) const;

    const simt::host_word<std::uint32_t>& signal_;
    look now_;
    callback report_;
    std::jthread thread_;
};

}  // namespace orchard
