// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Requests of a heap that failed, as the host reports them.

#include <cstdint>
#include <string>
#include <string_view>

#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard {

/// What a heap holds, in bytes, when the host asks for it, as its services have last said: they say it after each turn
/// in which they did anything.
struct memory_levels {
    std::uint64_t in_use =
        0;  ///< whole segments handed to the device, those of slabs and of the segment cache included
    std::uint64_t committed = 0;     ///< on the device and on the host
    std::uint64_t largest_free = 0;  ///< committed and free in one piece, in whole segments
    std::uint64_t device_budget = 0;
    std::uint64_t host_budget = 0;
    /// A service did not answer in time: what it has of `largest_free` is from when memory was last committed or
    /// refused.
    bool is_late = false;

    friend constexpr bool operator==(const memory_levels&, const memory_levels&) = default;
};

/// What is known of a request that failed. `reason` is `none` where none has.
struct failure {
    failure_reason reason = failure_reason::none;
    std::uint64_t bytes = 0;                 ///< what the thread asked for
    std::uint32_t size_class = chunk_class;  ///< index of the page class, or `chunk_class`
    std::uint32_t block = 0;                 ///< block of the thread
    std::uint32_t thread = 0;                ///< index of that thread in its block
    std::uint64_t time_ns = 0;               ///< on the device's clock (`simt::clock_ns`)
    std::uint64_t count = 0;                 ///< requests that failed so far, this one included
    std::uint64_t of_reason = 0;             ///< how many of them failed for this reason
    memory_levels now{};                     ///< of the heap when this was asked for, not when the request failed

    friend constexpr bool operator==(const failure&, const failure&) = default;
};

/// The reason's name as in the enumeration: "fragmented". A value outside it: "unknown".
std::string_view name_of(failure_reason reason);

/// What the reason means, without a final stop: "enough segments are free, but ...".
std::string_view explain(failure_reason reason);

/// What a user can do about it, as an imperative sentence without a final stop. Empty for `none`.
std::string_view remedy(failure_reason reason);

/// One line for people: the size, the reason and its meaning, which thread asked and when, how many failed, what the
/// heap holds (now, not when the request failed), the remedy.
std::string to_text(const failure& what);

}  // namespace orchard
