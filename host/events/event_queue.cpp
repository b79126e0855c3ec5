// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The queue of one producer of events; see event_queue.hpp.

#include "host/events/event_queue.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "host/monotonic_clock.hpp"

namespace orchard {

/// The kernel compares the word again before the thread sleeps, so that a wake after the store is not missed.
void sleeping_word::sleep(std::uint64_t ns) {
    asleep_.store(1, std::memory_order_seq_cst);
    const timespec limit{static_cast<std::time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&asleep_), FUTEX_WAIT_PRIVATE, 1, &limit, nullptr, 0);
    asleep_.store(0, std::memory_order_relaxed);
}

void sleeping_word::wake() {
    // Relaxed: what the woken thread is to see is ordered by the queues.
    if (asleep_.load(std::memory_order_relaxed) != 0 && asleep_.exchange(0, std::memory_order_relaxed) != 0) {
        ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&asleep_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
}

event_queue::event_queue(std::uint32_t capacity, event_mode mode, std::uint64_t patience_ns, sleeping_word& reader)
    : capacity_{capacity},
      half_{capacity / 2},
      mode_{mode},
      patience_ns_{patience_ns},
      reader_{reader},
      events_{std::make_unique<event[]>(capacity)} {}

/// Looks at the reader's place again, and wakes the reader if the queue is half full. Returns true if there is room for
/// one event, at place `at`.
bool event_queue::look_for_room(std::uint64_t at) {
    // Acquire: pairs with `drain`, which has read the events whose places are used again.
    seen_popped_ = popped_.load(std::memory_order_acquire);
    if (at - seen_popped_ >= half_) {
        reader_.wake();
    }
    return at - seen_popped_ < capacity_;
}

/// Waits for room, at most for `patience_ns`, and counts the wait. Returns true if there is room for one event, at
/// place `at`.
bool event_queue::wait_for_room(std::uint64_t at) {
    constexpr absl::Duration between_looks = absl::Microseconds(20);
    const absl::Time begin = monotonic_now();
    const absl::Time end = begin + absl::Nanoseconds(static_cast<std::int64_t>(patience_ns_));
    absl::Time now = begin;
    bool has_room = false;
    do {
        absl::SleepFor(between_looks);
        has_room = look_for_room(at);
        now = monotonic_now();
    } while (!has_room && now < end);
    // Only this thread writes them.
    const event_waits before = waits();
    waits_.store(before.count + 1, std::memory_order_relaxed);
    waited_ns_.store(before.ns + static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(now - begin)),
                     std::memory_order_relaxed);
    return has_room;
}

/// Returns true if there is room for one event, at place `at`; false, with the event counted as lost, if there is none.
/// In the complete mode it waits for room first.
bool event_queue::make_room(std::uint64_t at) {
    if (look_for_room(at)) {
        return true;
    }
    if (mode_ == event_mode::complete && !has_given_up_.load(std::memory_order_relaxed)) {
        if (wait_for_room(at)) {
            return true;
        }
        has_given_up_.store(true, std::memory_order_relaxed);
    }
    // Only this thread writes it.
    lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return false;
}

std::size_t event_queue::drain(std::span<event> out, std::uint64_t* lost) {
    const std::uint64_t at = popped_.load(std::memory_order_relaxed);   // only this thread writes it
    const std::uint64_t end = pushed_.load(std::memory_order_acquire);  // pairs with `emit`
    const std::size_t count = std::min<std::uint64_t>(end - at, out.size());
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = events_[(at + i) & (capacity_ - 1)];
    }
    popped_.store(at + count, std::memory_order_release);  // pairs with `look_for_room`
    const std::uint64_t all_lost = lost_.load(std::memory_order_relaxed);
    *lost += all_lost - told_lost_;
    told_lost_ = all_lost;
    return count;
}

}  // namespace orchard
