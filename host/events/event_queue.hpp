// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The queue through which one thread of a heap hands its events to the log.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "host/events/event.hpp"
#include "host/events/event_mode.hpp"
#include "host/events/event_sink.hpp"
#include "host/events/event_waits.hpp"

namespace orchard {

/// A word on which one thread sleeps, for a limited time, until another one wakes it.
///
/// `wake` takes no lock, and makes a system call only if the thread sleeps. A call of `wake` just before the thread
/// falls asleep may be missed; the thread then sleeps for its whole time.
class sleeping_word {
public:
    /// Sleeps for `ns`, or until `wake`. One thread alone calls it.
    void sleep(std::uint64_t ns);
    /// Wakes the thread, if it sleeps. Any thread may call it.
    void wake();

private:
    std::atomic<std::uint32_t> asleep_{0};
};

/// Events on their way from one thread to the log's thread: a ring with one writer and one reader, of a fixed size.
///
///     events_   | . | e | e | e | . | ...     `capacity` events, used in a circle
///                     ^popped_    ^pushed_    both count up for ever; an index is taken modulo `capacity`
///
/// In the sampled mode `emit` is free of waits: no lock, no allocation, and one system call at most, which wakes the
/// log's thread when the queue is half full. In the complete mode it waits for room, at most for `patience_ns` in one
/// call. If that passes, the record has a gap anyway: this event and those after it are counted as lost like in the
/// sampled mode, and `has_given_up` says so. The wait cannot become a deadlock, since it ends by itself; and it is
/// short, since the log's thread waits for no thread of the heap.
class event_queue final : public event_source {
public:
    /// @param capacity  events; a power of two, at least 2
    /// @param reader  on which the log's thread sleeps; must outlive this object
    event_queue(std::uint32_t capacity, event_mode mode, std::uint64_t patience_ns, sleeping_word& reader);

    /// Adds an event. One thread alone calls it. Cost: 32 bytes stored, two loads and a store.
    void emit(const event& e) {
        const std::uint64_t at = pushed_.load(std::memory_order_relaxed);  // only this thread writes it
        // The copy spares the line that the reader writes, as long as the queue is not half full by it.
        if (at - seen_popped_ >= half_ && !make_room(at)) {
            return;
        }
        events_[at & (capacity_ - 1)] = e;
        pushed_.store(at + 1, std::memory_order_release);  // pairs with `drain`
    }

    /// The reader's side; see `event_source`.
    std::size_t drain(std::span<event> out, std::uint64_t* lost) override;

    /// Returns the number of events that were emitted so far, without those that were lost. Any thread may call it.
    [[nodiscard]] std::uint64_t emitted() const { return pushed_.load(std::memory_order_acquire); }
    /// Returns true if a producer has waited for `patience_ns` in vain. Any thread may call it.
    [[nodiscard]] bool has_given_up() const { return has_given_up_.load(std::memory_order_relaxed); }
    /// Returns how often and how long the producer has waited for room. Any thread may call it; while the producer
    /// runs, the two numbers may be of different moments.
    [[nodiscard]] event_waits waits() const {
        return {waits_.load(std::memory_order_relaxed), waited_ns_.load(std::memory_order_relaxed)};
    }

private:
    bool make_room(std::uint64_t at);
    bool wait_for_room(std::uint64_t at);
    bool look_for_room(std::uint64_t at);

    std::uint32_t capacity_;
    std::uint32_t half_;
    event_mode mode_;
    std::uint64_t patience_ns_;
    sleeping_word& reader_;
    std::unique_ptr<event[]> events_;
    // The writer's words, and the reader's, on cache lines of their own.
    alignas(64) std::atomic<std::uint64_t> pushed_{0};
    std::uint64_t seen_popped_ = 0;  ///< `popped_` as the writer last saw it
    std::atomic<std::uint64_t> lost_{0};
    std::atomic<bool> has_given_up_{false};
    std::atomic<std::uint64_t> waits_{0};
    std::atomic<std::uint64_t> waited_ns_{0};
    alignas(64) std::atomic<std::uint64_t> popped_{0};
    std::uint64_t told_lost_ = 0;  ///< part of `lost_` that `drain` has returned
};

}  // namespace orchard
