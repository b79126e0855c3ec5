// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the threads of a heap report to, besides their counters.

#include <cstdint>

#include "device/simt/lane.cuh"
#include "host/events/event.hpp"
#include "host/events/event_queue.hpp"
#include "uvm/geometry/portion.hpp"

namespace orchard {

/// The work of a heap that takes a noticeable time, with the amount that `activity_observer` gets.
///
///     activity   begins with            ends with
///     serve      requests of the turn   the same
///     commit     bytes wanted           bytes committed; 0: it failed
///     decommit   bytes                  the same; 0: it failed
///     move       bytes to be moved      bytes moved
///     trim       0                      bytes given up
enum class activity : std::uint8_t { serve, commit, decommit, move, trim };
inline constexpr int activities = 5;

/// Sees the work of a heap's threads as it begins and ends, on the thread that does it. An event, in contrast, is noted
/// when the work is done, and seen later.
///
/// The calls on the service's thread delay requests. They must not call the device, and must not wait for a thread that
/// may wait for a kernel.
class activity_observer {
public:
    activity_observer() = default;
    activity_observer(const activity_observer&) = delete;
    activity_observer& operator=(const activity_observer&) = delete;
    virtual ~activity_observer() = default;

    /// The calling thread is a thread of the heap, and has just begun. @param name  a literal, such as "service"
    virtual void thread_begins(const char* name) = 0;
    virtual void begin(activity what, std::uint64_t amount) = 0;
    virtual void end(activity what, std::uint64_t amount) = 0;
    /// A request waits for memory, and does not wait any more. On the service's thread.
    /// @param slot  of the mailbox; one request waits in a slot at a time
    virtual void wait_begins(std::uint32_t slot, std::uint64_t bytes) = 0;
    virtual void wait_ends(std::uint32_t slot) = 0;
};

/// `event::detail` of grants and returns that the host makes for itself: no slot of the mailbox.
inline constexpr std::uint32_t host_slot = 0xff'ffff;

/// The listeners of one thread of a heap. Both are null if nobody listens, which is all that the thread then tests.
struct reports {
    event_queue* events = nullptr;
    activity_observer* observer = nullptr;
};

/// Returns `event::at` of a leaf of a segment.
constexpr std::uint64_t event_offset(segment_index segment, leaf_index leaf) {
    return (std::uint64_t{to_underlying(segment)} << segment_shift) +
           std::uint64_t{to_underlying(leaf)} * big_page_bytes;
}

/// Returns microseconds, as events have them in `event::thread`, of a time in ns; at most what the field holds.
constexpr std::uint32_t event_microseconds(std::uint64_t ns) {
    const std::uint64_t us = ns / 1000;
    return us < ~std::uint32_t{0} ? static_cast<std::uint32_t>(us) : ~std::uint32_t{0};
}

}  // namespace orchard
