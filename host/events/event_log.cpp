// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The event log; see event_log.hpp.
///
///     loop
///       turn             until the thread is to stop; sleeps if there was nothing
///         collect          every producer: its queue or source -> `held`
///         merge            those that are old enough, by time -> `merged_`
///           pass             -> the sinks

#include "host/events/event_log.hpp"

#include <algorithm>

#include "absl/time/clock.h"
#include "device/simt/lane.cuh"
#include "host/monotonic_clock.hpp"

namespace orchard {

event_log::event_log(const event_log_settings& settings) : settings_{settings} {
    merged_.reserve(most_at_once);
    shared_ = &add_queue();
}

event_queue& event_log::add_queue(std::uint32_t capacity) {
    const auto patience_ns = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(settings_.patience));
    event_queue& made =
        queues_.emplace_back(capacity != 0 ? capacity : settings_.other_capacity, settings_.mode, patience_ns, signal_);
    add_source(made);
    return made;
}

void event_log::add_source(event_source& source) { producers_.push_back({.source = &source, .held = {}}); }

void event_log::add_sink(event_sink& sink) {
    const std::scoped_lock lock(sinks_mutex_);
    sinks_.push_back(&sink);
}

void event_log::remove_sink(event_sink& sink) {
    const std::scoped_lock lock(sinks_mutex_);
    std::erase(sinks_, &sink);
}

void event_log::emit_shared(const event& e) {
    const std::scoped_lock lock(shared_mutex_);
    shared_->emit(e);
}

void event_log::start() {
    is_running_.store(true, std::memory_order_relaxed);
    thread_ = std::make_unique<heap_thread>([this] { loop(); },
                                            [this] {
                                                stopping_.store(true, std::memory_order_release);
                                                signal_.wake();
                                            });
}

void event_log::stop() {
    if (thread_) {
        thread_->stop();
    }
}

/// The thread's last turns take all that is there, until nothing is left: producers that have ended emit no more.
void event_log::loop() {
    constexpr std::uint64_t shortest_ns = 100'000;
    constexpr std::uint64_t longest_ns = 10'000'000;
    if (at_start_) {
        at_start_();
    }
    std::uint64_t nap_ns = shortest_ns;
    while (!stopping_.load(std::memory_order_acquire)) {
        // Read before the events are collected. The acquire pairs with `flush`.
        const std::uint64_t asked = asked_.load(std::memory_order_acquire);
        const bool is_asked = asked != served_.load(std::memory_order_relaxed);
        if (turn(is_asked)) {
            nap_ns = shortest_ns;
        } else if (!is_asked) {
            signal_.sleep(nap_ns);
            nap_ns = std::min(2 * nap_ns, longest_ns);
        }
        if (is_asked) {
            served_.store(asked, std::memory_order_release);  // pairs with `flush`
        }
    }
    while (turn(true)) {
    }
    is_running_.store(false, std::memory_order_release);
}

/// Collects events and passes on those that are old enough; with `all`, all that were there when it began. Returns true
/// if it passed any on. A turn in which a producer holds back as many as it may passes all on, whatever their times.
bool event_log::turn(bool all) {
    const std::uint64_t begun_ns = simt::clock_ns();
    const std::uint64_t before = passed();
    const std::scoped_lock lock(sinks_mutex_);
    // With `all`, the queues are emptied several times, since a producer holds a limited number.
    for (;;) {
        const std::uint64_t lost = collect();
        if (lost != 0) {
            lost_.store(this->lost() + lost, std::memory_order_relaxed);
            for (event_sink* const sink : sinks_) {
                sink->lost(lost);
            }
        }
        const bool is_full =
            std::any_of(producers_.begin(), producers_.end(), [](const producer& p) { return p.end >= most_held; });
        merge(all || is_full ? ~std::uint64_t{0} : begun_ns - slack_ns);
        if (!all || !is_full) {
            return passed() != before;
        }
    }
}

/// Moves what the producers have to their `held`. Returns the number of events lost.
std::uint64_t event_log::collect() {
    std::uint64_t lost = 0;
    for (producer& p : producers_) {
        std::copy(p.held.begin() + static_cast<std::ptrdiff_t>(p.next),
                  p.held.begin() + static_cast<std::ptrdiff_t>(p.end), p.held.begin());
        p.end -= p.next;
        p.next = 0;
        while (p.end < most_held) {
            if (p.end == p.held.size()) {
                p.held.resize(std::min(most_held, std::max<std::size_t>(2 * p.end, 256)));
            }
            const std::size_t room = p.held.size() - p.end;
            const std::size_t count = p.source->drain(std::span(p.held).subspan(p.end), &lost);
            p.end += count;
            if (count < room) {
                break;
            }
        }
    }
    return lost;
}

/// Passes on all held events up to this time, the earliest first; those of one producer in its order. Several of one
/// time go by the order of the producers. An event that is behind a later one of its producer waits for that one.
void event_log::merge(std::uint64_t until_ns) {
    for (;;) {
        producer* first = nullptr;
        std::uint64_t others_ns = until_ns;  // the earliest of the others
        for (producer& p : producers_) {
            if (p.is_empty() || p.next_ns() > until_ns) {
                continue;
            }
            if (first == nullptr || p.next_ns() < first->next_ns()) {
                others_ns = first == nullptr ? others_ns : first->next_ns();
                first = &p;
            } else {
                others_ns = std::min(others_ns, p.next_ns());
            }
        }
        if (first == nullptr) {
            break;
        }
        // As long as it stays the earliest: most of the time one producer emits nearly all events.
        do {
            merged_.push_back(first->held[first->next++]);
            if (merged_.size() == most_at_once) {
                pass(merged_);
                merged_.clear();
            }
        } while (!first->is_empty() && first->next_ns() < others_ns);
    }
    if (!merged_.empty()) {
        pass(merged_);
        merged_.clear();
    }
}

void event_log::pass(std::span<const event> events) {
    for (event_sink* const sink : sinks_) {
        sink->take(events);
    }
    passed_.store(passed() + events.size(), std::memory_order_relaxed);
}

event_waits event_log::waits() const {
    event_waits sum;
    for (const event_queue& q : queues_) {
        sum = sum + q.waits();
    }
    return sum;
}

bool event_log::flush(absl::Duration limit) {
    const absl::Time end = monotonic_now() + limit;
    const std::uint64_t asked = asked_.fetch_add(1, std::memory_order_acq_rel) + 1;  // pairs with `loop`
    // The acquires pair with the releases of `loop`: what the sinks did is seen.
    while (served_.load(std::memory_order_acquire) < asked) {
        if (!is_running_.load(std::memory_order_acquire) || monotonic_now() >= end) {
            return false;
        }
        signal_.wake();
        absl::SleepFor(absl::Microseconds(20));
    }
    return true;
}

}  // namespace orchard
