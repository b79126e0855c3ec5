// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Failed requests of a heap, as the host reports them.

#include <cstdint>
#include <string>
#include <string_view>

#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/size_classes.hpp"

namespace orchard {

/// The memory that a heap holds, in bytes, at the time of the host's query. The service reports these numbers after
/// each turn in which it did any work. All zero means that the levels are not known.
struct memory_levels {
    std::uint64_t in_use =
        0;  ///< whole segments handed to the device, including those of slabs and of the segment cache
    std::uint64_t committed = 0;     ///< on the device and on the host
    std::uint64_t largest_free = 0;  ///< committed and free in one piece, in whole segments
    std::uint64_t device_budget = 0;
    std::uint64_t host_budget = 0;
    /// True if the service did not answer in time. `largest_free` then dates from the last time that memory was
    /// committed or a commit failed.
    bool is_late = false;

    friend constexpr bool operator==(const memory_levels&, const memory_levels&) = default;
};

/// A failed request. `reason` is `none` if no request has failed. `to_text` makes a line of it for people.
struct failure {
    failure_reason reason = failure_reason::none;
    std::uint64_t bytes = 0;                 ///< size that the thread requested
    std::uint32_t size_class = chunk_class;  ///< index of the page class, or `chunk_class`
    std::uint32_t block = 0;                 ///< block index of the thread
    std::uint32_t thread = 0;                ///< index of the thread in its block
    std::uint64_t time_ns = 0;               ///< on the device's clock (`simt::clock_ns`)
    std::uint64_t count = 0;                 ///< requests that have failed so far, including this one
    std::uint64_t of_reason = 0;             ///< number of those that failed for this reason
    memory_levels now{};                     ///< the heap at the time of this query, not when the request failed

    friend constexpr bool operator==(const failure&, const failure&) = default;
};

/// Returns the reason's name as in the enumeration: "fragmented". Returns "unknown" for a value outside it.
std::string_view name_of(failure_reason reason);

/// Returns the meaning of the reason, without a final stop: "enough segments were free, but ...".
std::string_view explain(failure_reason reason);

/// Returns the remedy for the user, as an imperative sentence without a final stop. Empty for `none`.
std::string_view remedy(failure_reason reason);

/// Returns one line for people: the size, the thread and the time, the reason and its meaning, the number of failures,
/// the memory that the heap holds at the query, what this means beside the reason (it may look like a contradiction:
/// free memory that came after the deadline beside `commit_blocked`), and the option to change. Levels that are not
/// known, or have nothing to do with the reason, are left out.
std::string to_text(const failure& what);

}  // namespace orchard
