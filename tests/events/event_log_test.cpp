// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The event log: order, losses, waiting producers, further sources.

#include "host/events/event_log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "device/simt/lane.cuh"

namespace orchard {
namespace {

/// Keeps all events. Its fields may be read after `stop` or `flush`.
struct keeping_sink : event_sink {
    std::vector<event> events;
    std::uint64_t lost_events = 0;

    void take(std::span<const event> more) override { events.insert(events.end(), more.begin(), more.end()); }
    void lost(std::uint64_t count) override { lost_events += count; }
};

/// Keeps the log's thread in its first call of `take` until it is told to go on.
struct held_sink final : keeping_sink {
    std::atomic<bool> is_held{false};
    std::atomic<bool> goes_on{false};

    void take(std::span<const event> more) override {
        is_held = true;
        while (!goes_on) {
            absl::SleepFor(absl::Microseconds(50));
        }
        keeping_sink::take(more);
    }
};

/// A source of given events.
struct given_source final : event_source {
    std::vector<event> events;
    std::uint64_t lost_events = 0;
    std::size_t at = 0;

    std::size_t drain(std::span<event> out, std::uint64_t* lost) override {
        const std::size_t count = std::min(out.size(), events.size() - at);
        std::copy_n(events.begin() + static_cast<std::ptrdiff_t>(at), count, out.begin());
        at += count;
        *lost += std::exchange(lost_events, 0);
        return count;
    }
};

event at_time(std::uint64_t time_ns, std::uint32_t thread = 0) {
    return {.time_ns = time_ns, .at = 0, .bytes = 0, .thread = thread, .detail = 0, .kind = event_kind::grant};
}

TEST(event_log, events_of_one_producer_keep_their_order_and_none_is_lost_if_there_is_room) {
    event_log log;
    keeping_sink sink;
    event_queue& queue = log.add_queue(1024);
    log.add_sink(sink);
    log.start();
    constexpr std::uint32_t count = 1000;
    for (std::uint32_t i = 0; i < count; ++i) {
        queue.emit(at_time(simt::clock_ns(), i));
    }
    log.stop();
    ASSERT_EQ(sink.events.size(), count);
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(sink.events[i].thread, i);
    }
    EXPECT_EQ(sink.lost_events, 0u);
    EXPECT_EQ(log.passed(), count);
}

TEST(event_log, events_of_several_producers_are_merged_by_time) {
    event_log log;
    keeping_sink sink;
    given_source source;
    event_queue& a = log.add_queue(64);
    event_queue& b = log.add_queue(64);
    log.add_source(source);
    log.add_sink(sink);
    for (const std::uint64_t t : {10, 40, 50}) {
        a.emit(at_time(t, 1));
    }
    for (const std::uint64_t t : {20, 30, 60}) {
        b.emit(at_time(t, 2));
    }
    source.events = {at_time(15, 3), at_time(35, 3), at_time(70, 3)};
    log.emit_shared(at_time(55, 4));
    log.start();
    log.stop();
    std::vector<std::uint64_t> times;
    for (const event& e : sink.events) {
        times.push_back(e.time_ns);
    }
    EXPECT_EQ(times, (std::vector<std::uint64_t>{10, 15, 20, 30, 35, 40, 50, 55, 60, 70}));
}

TEST(event_log, an_event_emitted_late_within_the_slack_gets_its_place) {
    event_log log;
    keeping_sink sink;
    event_queue& a = log.add_queue(64);
    event_queue& b = log.add_queue(64);
    log.add_sink(sink);
    log.start();
    // Stamped first, emitted last: in the queue before the first event is old enough, however the threads are run.
    for (std::uint32_t i = 0; i < 20; ++i) {
        const std::uint64_t now = simt::clock_ns();
        b.emit(at_time(now + event_log::slack_ns * 100'000, 2));
        a.emit(at_time(now + event_log::slack_ns * 100'000 - 1, 1));
    }
    log.stop();
    ASSERT_EQ(sink.events.size(), 40u);
    for (std::size_t i = 1; i < sink.events.size(); ++i) {
        EXPECT_LE(sink.events[i - 1].time_ns, sink.events[i].time_ns);
    }
}

/// Emits one event, and returns when the sink holds it: the log's thread then takes nothing more.
void hold(event_queue& queue, const held_sink& sink) {
    queue.emit(at_time(1));
    while (!sink.is_held) {
        absl::SleepFor(absl::Microseconds(50));
    }
}

TEST(event_log, a_full_queue_of_a_sampled_log_counts_what_it_loses_and_its_producer_does_not_wait) {
    event_log log({.mode = event_mode::sampled, .other_capacity = 16});
    held_sink sink;
    event_queue& queue = log.add_queue(16);
    log.add_sink(sink);
    log.start();
    hold(queue, sink);
    for (std::uint32_t i = 0; i < 100; ++i) {
        queue.emit(at_time(2, i));  // returns although the log's thread takes nothing
    }
    sink.goes_on = true;
    log.stop();
    ASSERT_EQ(sink.events.size(), 17u);
    EXPECT_EQ(sink.lost_events, 84u);
    EXPECT_EQ(log.lost(), 84u);
    EXPECT_FALSE(queue.has_given_up());
    EXPECT_EQ(log.waits(), event_waits{});
    for (std::uint32_t i = 0; i < 16; ++i) {
        EXPECT_EQ(sink.events[1 + i].thread, i);  // the oldest are kept
    }
}

TEST(event_log, a_complete_log_loses_nothing_however_small_its_queues) {
    event_log log({.mode = event_mode::complete, .patience = absl::Seconds(60)});
    keeping_sink sink;
    event_queue& a = log.add_queue(4);
    event_queue& b = log.add_queue(2);
    log.add_sink(sink);
    log.start();
    constexpr std::uint32_t count = 2000;
    const auto emit_all = [](event_queue& queue, std::uint32_t producer) {
        for (std::uint32_t i = 0; i < count; ++i) {
            queue.emit(at_time(simt::clock_ns(), producer * count + i));
        }
    };
    std::thread one([&] { emit_all(a, 0); });
    std::thread two([&] { emit_all(b, 1); });
    one.join();
    two.join();
    log.stop();
    ASSERT_EQ(sink.events.size(), 2 * count);
    EXPECT_EQ(sink.lost_events, 0u);
    std::uint32_t next[2] = {0, count};
    for (const event& e : sink.events) {
        EXPECT_EQ(e.thread, next[e.thread / count]++);
    }
}

TEST(event_log, a_producer_of_a_complete_log_waits_no_longer_than_its_patience_and_then_loses_events) {
    event_log log({.mode = event_mode::complete, .patience = absl::Milliseconds(20)});
    held_sink sink;
    event_queue& queue = log.add_queue(4);
    log.add_sink(sink);
    log.start();
    hold(queue, sink);
    for (std::uint32_t i = 0; i < 1000; ++i) {
        queue.emit(at_time(2));  // the fifth waits, those after it do not: this ends
    }
    EXPECT_TRUE(queue.has_given_up());
    EXPECT_EQ(queue.waits().count, 1u);
    EXPECT_GE(queue.waits().ns, 20'000'000u);
    EXPECT_EQ(log.waits(), queue.waits());
    sink.goes_on = true;
    log.stop();
    EXPECT_EQ(sink.events.size(), 5u);
    EXPECT_EQ(sink.lost_events, 996u);
}

/// Returns how often the producer of a full queue has waited until the sink goes on, `pause` after the queue was full.
std::uint64_t waits_beside_a_sink_that_goes_on_after(absl::Duration pause) {
    event_log log({.mode = event_mode::complete, .patience = absl::Seconds(60)});
    held_sink sink;
    event_queue& queue = log.add_queue(4);
    log.add_sink(sink);
    log.start();
    hold(queue, sink);
    for (std::uint32_t i = 0; i < 4; ++i) {
        queue.emit(at_time(2));
    }
    EXPECT_EQ(log.waits(), event_waits{});
    std::thread later([&] {
        absl::SleepFor(pause);
        sink.goes_on = true;
    });
    queue.emit(at_time(3));  // finds the queue full, unless this thread has not run during the pause
    later.join();
    log.stop();
    EXPECT_EQ(sink.events.size(), 6u);
    EXPECT_EQ(log.waits().ns > 0, log.waits().count > 0);
    return log.waits().count;
}

TEST(event_log, a_producer_that_waits_until_there_is_room_is_counted_once) {
    std::uint64_t waits = 0;
    // A longer pause where the producer did not run in time, and so found room.
    for (auto pause = absl::Milliseconds(10); waits == 0 && pause < absl::Seconds(10); pause *= 4) {
        waits = waits_beside_a_sink_that_goes_on_after(pause);
    }
    EXPECT_EQ(waits, 1u);
}

TEST(event_log, the_losses_of_a_source_are_told) {
    event_log log;
    keeping_sink sink;
    given_source source;
    source.events = {at_time(1)};
    source.lost_events = 7;
    log.add_source(source);
    log.add_sink(sink);
    log.start();
    log.stop();
    EXPECT_EQ(sink.events.size(), 1u);
    EXPECT_EQ(sink.lost_events, 7u);
}

TEST(event_log, a_source_with_more_than_is_held_back_is_emptied) {
    event_log log;
    keeping_sink sink;
    given_source source;
    source.events.resize(3 * event_log::most_held + 5, at_time(~std::uint64_t{0} - 1));
    log.add_source(source);
    log.add_sink(sink);
    log.start();
    log.stop();
    EXPECT_EQ(sink.events.size(), source.events.size());
}

TEST(event_log, a_source_whose_clock_is_ahead_is_not_held_back_for_ever) {
    event_log log;
    keeping_sink sink;
    given_source source;
    source.events.resize(event_log::most_held, at_time(~std::uint64_t{0} - 1));
    log.add_source(source);
    log.add_sink(sink);
    log.start();
    while (log.passed() != event_log::most_held) {
        absl::SleepFor(absl::Microseconds(100));
    }
    log.stop();
    EXPECT_EQ(sink.events.size(), event_log::most_held);
}

TEST(event_log, a_flush_passes_on_what_was_emitted_and_sinks_come_and_go) {
    event_log log;
    keeping_sink first;
    keeping_sink second;
    event_queue& queue = log.add_queue(64);
    log.start();
    queue.emit(at_time(simt::clock_ns(), 1));
    ASSERT_TRUE(log.flush(absl::Seconds(60)));  // nobody listens
    log.add_sink(first);
    queue.emit(at_time(simt::clock_ns(), 2));
    ASSERT_TRUE(log.flush(absl::Seconds(60)));
    log.add_sink(second);
    queue.emit(at_time(simt::clock_ns(), 3));
    ASSERT_TRUE(log.flush(absl::Seconds(60)));
    log.remove_sink(first);
    queue.emit(at_time(simt::clock_ns(), 4));
    log.stop();
    ASSERT_EQ(first.events.size(), 2u);
    EXPECT_EQ(first.events[0].thread, 2u);
    EXPECT_EQ(first.events[1].thread, 3u);
    ASSERT_EQ(second.events.size(), 2u);
    EXPECT_EQ(second.events[1].thread, 4u);
    EXPECT_FALSE(log.flush(absl::Seconds(60)));  // the thread has ended
}

}  // namespace
}  // namespace orchard
