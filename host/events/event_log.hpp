// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The event log of a heap: what its threads report, merged by time and passed on.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "host/events/event.hpp"
#include "host/events/event_queue.hpp"
#include "host/events/event_sink.hpp"
#include "host/heap_thread.hpp"

namespace orchard {

/// The settings of a log.
struct event_log_settings {
    event_mode mode = event_mode::sampled;
    /// Events that the queue of the service holds, and each other one; powers of two. The log's thread sleeps for up to
    /// 10 ms, but is woken when a queue is half full.
    std::uint32_t service_capacity = 1u << 14;
    std::uint32_t other_capacity = 1u << 12;
    /// In the complete mode: the longest wait of a producer in one call. Kernels wait for the service, which waits
    /// here.
    absl::Duration patience = absl::Milliseconds(100);
};

/// Takes the events of all threads of one heap, merges them by time, and passes them to sinks, in a thread of its own.
///
///     event_log log({.mode = event_mode::complete});
///     event_queue& mine = log.add_queue(1024);    // before `start`; for one thread
///     log.add_sink(sink);
///     log.start();
///         mine.emit({...});                       // on that thread
///         log.emit_shared({...});                 // on any thread
///     log.stop();                                 // all that was emitted before has reached the sinks
///
/// A heap has a log only if somebody listens: its threads test one pointer otherwise.
///
/// Order: events of one producer stay in its order. Those of different producers are in the order of their times, if
/// each was emitted within 200 us of its time (`slack`); later ones follow behind. A source whose clock is ahead of the
/// host's is passed on when there is nothing else to wait for, so that nothing is held back for ever.
///
/// The thread sleeps while there are no events: 100 us first, up to 10 ms later, and it is woken by a queue that is
/// half full. Its cost without events is some hundred wakeups a second.
class event_log {
public:
    explicit event_log(const event_log_settings& settings = {});
    ~event_log() { stop(); }
    event_log(const event_log&) = delete;
    event_log& operator=(const event_log&) = delete;

    /// Returns a new queue for one producing thread. Before `start`. It lives as long as the log.
    /// @param capacity  a power of two; 0: `event_log_settings::other_capacity`
    event_queue& add_queue(std::uint32_t capacity = 0);
    /// Adds another producer, which must outlive the log's thread. Before `start`.
    void add_source(event_source& source);
    /// Adds a sink, which gets the events that are passed on from now on, or removes one, which is not in use
    /// afterwards. Any thread but the log's may call them, at any time. A sink must outlive the log's thread, or be
    /// removed.
    void add_sink(event_sink& sink);
    void remove_sink(event_sink& sink);
    /// Calls `at_start` on the log's thread before its first turn. Before `start`.
    void on_start(std::function<void()> at_start) { at_start_ = std::move(at_start); }

    /// Adds an event from any thread, under a mutex: for calls that are not on the path of requests. In the complete
    /// mode it may wait, as `event_queue::emit` does.
    void emit_shared(const event& e);

    /// Starts the thread. Errors: throws std::system_error if no thread can be started.
    void start();
    /// Stops the thread, after all events that were emitted before were passed on. The producers must have ended, or
    /// what they emit from now on is lost without a count.
    void stop();
    /// Waits until all that was emitted before this call was passed to the sinks. Returns false if that takes longer
    /// than `limit`, and if the thread does not run. Any thread but the log's may call it.
    bool flush(absl::Duration limit);

    [[nodiscard]] event_mode mode() const { return settings_.mode; }
    [[nodiscard]] const event_log_settings& settings() const { return settings_; }
    /// Returns the number of events passed to the sinks so far, and of those lost. Any thread may call them.
    [[nodiscard]] std::uint64_t passed() const { return passed_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
    /// Returns how often and how long the producers of all queues have waited for room. After `start`, any thread may
    /// call it.
    [[nodiscard]] event_waits waits() const;

    /// The least distance in time between an event that is passed on and the present: how late an event may be emitted
    /// and still get its place.
    static constexpr std::uint64_t slack_ns = 200'000;
    /// Events that are held back at most for each producer, and the most in one call of `event_sink::take`.
    static constexpr std::size_t most_held = std::size_t{1} << 16;
    static constexpr std::size_t most_at_once = std::size_t{1} << 12;

private:
    /// A producer, with the events that were taken from it and not passed on yet: `held` from `next` to `end`.
    struct producer {
        event_source* source;
        std::vector<event> held;  ///< grows to what is needed, at most `most_held`
        std::size_t next = 0;
        std::size_t end = 0;

        [[nodiscard]] bool is_empty() const { return next == end; }
        [[nodiscard]] std::uint64_t next_ns() const { return held[next].time_ns; }
    };

    // The steps of the thread; each is described at its definition.
    void loop();
    bool turn(bool all);
    std::uint64_t collect();
    void merge(std::uint64_t until_ns);
    void pass(std::span<const event> events);

    event_log_settings settings_;
    sleeping_word signal_;
    std::deque<event_queue> queues_;
    std::vector<producer> producers_;  ///< of the thread, after `start`
    std::vector<event> merged_;        ///< of the thread
    std::function<void()> at_start_;
    event_queue* shared_;      ///< guarded by `shared_mutex_`
    std::mutex shared_mutex_;  ///< the log's thread never takes it
    std::mutex sinks_mutex_;   ///< held during each turn that passes events on
    std::vector<event_sink*> sinks_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> is_running_{false};
    std::atomic<std::uint64_t> asked_{0};   ///< calls of `flush`
    std::atomic<std::uint64_t> served_{0};  ///< those of them that were served
    std::atomic<std::uint64_t> passed_{0};
    std::atomic<std::uint64_t> lost_{0};
    std::unique_ptr<heap_thread> thread_;
};

}  // namespace orchard
