// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// What the service and growth report: every event against the responses, the counters and the service's structures.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "host/events/event_log.hpp"
#include "host/events/reports.hpp"
#include "tests/support/service_rig.hpp"

namespace orchard::rig {
namespace {

constexpr std::uint64_t segment = segment_bytes;
constexpr std::uint64_t leaf = big_page_bytes;

/// Notes what it is told, one text for each call.
struct noting_observer final : activity_observer {
    std::vector<std::string> calls;

    void thread_begins(const char* name) override { calls.push_back(std::string("thread ") + name); }
    void begin(activity what, std::uint64_t amount) override { note("begin", what, amount); }
    void end(activity what, std::uint64_t amount) override { note("end", what, amount); }
    void wait_begins(std::uint32_t slot, std::uint64_t bytes) override {
        calls.push_back("wait " + std::to_string(slot) + " " + std::to_string(bytes));
    }
    void wait_ends(std::uint32_t slot) override { calls.push_back("end of wait " + std::to_string(slot)); }

    void note(const char* verb, activity what, std::uint64_t amount) {
        constexpr const char* names[activities] = {"serve", "commit", "decommit", "move", "trim"};
        calls.push_back(std::string(verb) + " " + names[static_cast<int>(what)] + " " + std::to_string(amount));
    }
};

/// A service whose events are read by the test itself.
struct reporting_rig : service_rig {
    explicit reporting_rig(const service_setup& s = {}) : service_rig{s} {
        service.report_to({&queue, &observer});
        grower.report_to({&growth_queue, &observer});
    }
    /// Returns the events since the last call: the service's, then growth's.
    std::vector<event> take() {
        std::vector<event> all(4096);
        std::uint64_t lost = 0;
        const std::size_t first = queue.drain(all, &lost);
        all.resize(first + growth_queue.drain(std::span(all).subspan(first), &lost));
        EXPECT_EQ(lost, 0u);
        return all;
    }

    sleeping_word reader;
    event_queue queue{1u << 16, event_mode::sampled, 0, reader};
    event_queue growth_queue{1u << 10, event_mode::sampled, 0, reader};
    noting_observer observer;
};

/// An event without its time.
struct seen {
    event_kind kind;
    std::uint64_t at;
    std::uint64_t bytes;
    std::uint32_t detail;
    friend bool operator==(const seen&, const seen&) = default;
    friend std::ostream& operator<<(std::ostream& to, const seen& s) {
        return to << name_of(s.kind) << " at " << s.at << ", " << s.bytes << " bytes, detail " << s.detail;
    }
};
std::vector<seen> without_time(const std::vector<event>& events) {
    std::vector<seen> all;
    for (const event& e : events) {
        all.push_back({e.kind, e.at, e.bytes, e.detail});
    }
    return all;
}

TEST(service_events, each_grant_and_return_is_an_event_with_its_place_and_slot) {
    reporting_rig host;
    ring_client client(host.box);
    const auto one = client.ask(1);
    const auto chunk = client.ask_chunk(3, 5);
    host.service.poll_once();  // together
    const auto tail = client.ask_chunk(0, 6);
    const auto refill = client.ask_or_fewer(4);
    host.service.poll_once();  // one by one
    EXPECT_EQ(without_time(host.take()),
              (std::vector<seen>{{event_kind::grant, 0, segment, one.slot},
                                 {event_kind::grant, segment, 3 * segment + 5 * leaf, chunk.slot},
                                 {event_kind::grant, 4 * segment + 5 * leaf, 6 * leaf, tail.slot},
                                 {event_kind::grant, 5 * segment, 4 * segment, refill.slot}}));
    while (client.take()) {
    }
    const auto back = client.give_back(1, 2);
    const auto back_tail = client.give_back_portion(4, 5);
    const auto wrong = client.give_back(1, 1);  // is no event: nothing was given back
    host.service.poll_once();
    EXPECT_EQ(without_time(host.take()),
              (std::vector<seen>{{event_kind::give_back, segment, 2 * segment, back.slot},
                                 {event_kind::give_back, 4 * segment + 5 * leaf, 6 * leaf, back_tail.slot}}));
    EXPECT_EQ(host.service.counters().requests_rejected.get(), 1u);
    EXPECT_NE(wrong.slot, back.slot);
}

TEST(service_events, what_the_host_takes_has_no_slot) {
    reporting_rig host;
    const auto with_tail = host.service.take_for_host(2, leaf_count{3});
    const auto tail = host.service.take_for_host(0, leaf_count{4});
    ASSERT_TRUE(with_tail && tail);
    host.service.give_back_from_host(*with_tail);
    host.service.give_back_from_host(*tail);
    EXPECT_EQ(without_time(host.take()),
              (std::vector<seen>{{event_kind::grant, 0, 2 * segment + 3 * leaf, host_slot},
                                 {event_kind::grant, 2 * segment + 3 * leaf, 4 * leaf, host_slot},
                                 {event_kind::give_back, 0, 2 * segment, host_slot},
                                 {event_kind::give_back, 2 * segment, 3 * leaf, host_slot},
                                 {event_kind::give_back, 2 * segment + 3 * leaf, 4 * leaf, host_slot}}));
    EXPECT_EQ(host.service.counters().grants.get(), 0u);
}

TEST(service_events, a_request_that_waits_is_a_park_then_a_commit_then_a_grant) {
    service_setup s;
    s.committed_at_start = 0;
    s.extent = 8;
    reporting_rig host{s};
    ring_client client(host.box);
    const auto id = client.ask(3);
    host.service.poll_once();
    while (host.grower.step()) {
    }
    host.service.poll_once();
    EXPECT_EQ(
        without_time(host.take()),
        (std::vector<seen>{{event_kind::park, 0, 3 * segment, id.slot},
                           {event_kind::grant, 0, 3 * segment, id.slot},
                           {event_kind::commit, 0, 8 * segment, static_cast<std::uint32_t>(memory_tier::device)}}));
    const std::string slot = std::to_string(id.slot);
    EXPECT_EQ(host.observer.calls,
              (std::vector<std::string>{"begin serve 1", "wait " + slot + " " + std::to_string(3 * segment),
                                        "end serve 1", "begin commit " + std::to_string(8 * segment),
                                        "end commit " + std::to_string(8 * segment), "end of wait " + slot}));
}

TEST(service_events, a_commit_that_fails_and_the_refusal_after_it_have_reasons) {
    service_setup s;
    s.committed_at_start = 0;
    reporting_rig host{s};
    ring_client client(host.box);
    host.memory.end_with(absl::ResourceExhaustedError("none"));
    const auto id = client.ask(2);
    host.service.poll_once();
    while (host.grower.step()) {
    }
    host.service.poll_once();
    const auto failed = static_cast<std::uint32_t>(failure_reason::commit_failed);
    EXPECT_EQ(without_time(host.take()), (std::vector<seen>{{event_kind::park, 0, 2 * segment, id.slot},
                                                            {event_kind::refuse, 0, 2 * segment, failed},
                                                            {event_kind::commit_failed, 0, 32 * segment, failed}}));
    EXPECT_EQ(host.grower.line().failures.load<simt::order::relaxed>(), 1u);
    EXPECT_EQ(host.observer.calls.back(), "end of wait " + std::to_string(id.slot));
}

TEST(service_events, memory_that_is_given_up_is_a_decommit) {
    service_setup s;
    s.committed_at_start = 0;
    s.extent = 8;
    reporting_rig host{s};
    ring_client client(host.box);
    (void)client.ask(1);
    host.service.poll_once();
    while (host.grower.step()) {
    }
    host.service.poll_once();
    (void)client.take();
    (void)client.give_back(0, 1);
    host.service.poll_once();
    (void)host.take();
    EXPECT_EQ(host.service.release_unused(0), 8u);
    while (host.grower.step()) {
    }
    EXPECT_EQ(
        without_time(host.take()),
        (std::vector<seen>{{event_kind::decommit, 0, 8 * segment, static_cast<std::uint32_t>(memory_tier::device)}}));
}

/// Thousands of random requests: the numbers of events are the service's counters, and the events alone give the memory
/// that is granted in the end.
TEST(service_events, the_events_account_for_all_that_is_granted) {
    service_setup s;
    s.committed_at_start = 0;
    s.extent = 4;
    reporting_rig host{s};
    ring_client client(host.box);
    std::mt19937 generator(7);
    const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
    std::map<std::uint64_t, std::uint64_t> held;  // offset -> bytes: whole segments, or one tail
    std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> asked;  // slot -> segments, leaves
    std::map<std::uint64_t, std::uint64_t> by_events;  // first byte of each segment or tail -> its bytes
    std::uint64_t count[event_kinds]{};
    std::uint64_t committed = 0;
    const auto add_grant = [](std::map<std::uint64_t, std::uint64_t>& to, std::uint64_t at, std::uint64_t bytes) {
        for (; bytes >= segment; at += segment, bytes -= segment) {
            to[at] = segment;
        }
        if (bytes != 0) {
            to[at] = bytes;
        }
    };
    for (int turn = 0; turn < 2000; ++turn) {
        for (std::uint32_t posts = random() % 6; posts != 0 && client.in_flight() < 60; --posts) {
            if (random() % 2 == 0 && !held.empty()) {
                auto one = held.lower_bound(random() % 256 * segment);
                one = one == held.end() ? held.begin() : one;
                const auto first = static_cast<std::uint32_t>(one->first >> segment_shift);
                one->second == segment
                    ? client.give_back(first, 1)
                    : client.give_back_portion(first, static_cast<std::uint32_t>(one->first % segment / leaf));
                held.erase(one);
            } else {
                const std::uint32_t segments = random() % 5;
                const std::uint32_t leaves = segments == 0 ? 1 + random() % 31 : random() % 2 * (random() % 32);
                asked[client.ask_chunk(segments, leaves).slot] = {segments, leaves};
            }
        }
        host.service.poll_once();
        while (random() % 2 == 0 && host.grower.step()) {
        }
        if (random() % 64 == 0) {
            (void)host.service.release_unused(random() % 8);
        }
        while (const auto a = client.take()) {
            const auto wanted = asked.find(a->slot);
            if (a->status == mailbox::response_status::granted && wanted != asked.end()) {
                const mailbox::grant g = mailbox::granted_by(*a, wanted->second.first, wanted->second.second);
                add_grant(held, std::uint64_t{to_underlying(g.first)} * segment, g.count * segment);
                if (to_underlying(g.leaves) != 0) {
                    held[std::uint64_t{to_underlying(g.tail_block())} * segment + to_underlying(g.leaf) * leaf] =
                        to_underlying(g.leaves) * leaf;
                }
            }
            asked.erase(a->slot);
        }
        for (const event& e : host.take()) {
            ++count[static_cast<int>(e.kind)];
            if (e.kind == event_kind::grant) {
                add_grant(by_events, e.at, e.bytes);
            } else if (e.kind == event_kind::give_back) {
                ASSERT_EQ(by_events[e.at], e.bytes);
                by_events.erase(e.at);
            } else if (e.kind == event_kind::commit) {
                committed += e.bytes;
            } else if (e.kind == event_kind::decommit) {
                committed -= e.bytes;
            }
        }
    }
    const service_counters& counters = host.service.counters();
    EXPECT_EQ(count[static_cast<int>(event_kind::grant)], counters.grants.get());
    EXPECT_EQ(count[static_cast<int>(event_kind::park)], counters.requests_parked.get());
    EXPECT_GT(counters.requests_parked.get(), 0u);
    EXPECT_GT(count[static_cast<int>(event_kind::decommit)], 0u);
    // What is in flight is granted as far as the service knows; returns in flight are not taken back yet.
    while (client.in_flight() != 0) {
        host.service.poll_once();
        while (host.grower.step()) {
        }
        while (client.take()) {
        }
    }
    for (const event& e : host.take()) {
        if (e.kind == event_kind::grant) {
            add_grant(by_events, e.at, e.bytes);
        } else if (e.kind == event_kind::give_back) {
            by_events.erase(e.at);
        } else if (e.kind == event_kind::commit) {
            committed += e.bytes;
        } else if (e.kind == event_kind::decommit) {
            committed -= e.bytes;
        }
    }
    std::uint64_t tails = 0;
    for (const auto& [at, bytes] : by_events) {
        EXPECT_TRUE(host.service.is_granted(segment_index{static_cast<std::uint32_t>(at >> segment_shift)}));
        tails += bytes != segment ? 1 : 0;
    }
    EXPECT_EQ(tails, counters.portions_granted.get());
    EXPECT_EQ(by_events.size() - tails, counters.segments_granted.get() - counters.portion_blocks.get());
    host.service.poll_once();
    EXPECT_EQ(committed, counters.segments_committed.get() * segment);
}

/// Keeps the log's thread in `take` until the test ends.
struct stuck_sink final : event_sink {
    std::atomic<bool> goes_on{false};
    std::uint64_t taken = 0;
    std::uint64_t lost_events = 0;
    void take(std::span<const event> events) override {
        while (!goes_on) {
            absl::SleepFor(absl::Microseconds(100));
        }
        taken += events.size();
    }
    void lost(std::uint64_t count) override { lost_events += count; }
};

TEST(service_events, a_sink_that_does_not_return_stalls_neither_growth_nor_the_service_of_a_sampled_log) {
    event_log log({.mode = event_mode::sampled, .service_capacity = 4, .other_capacity = 4});
    stuck_sink sink;
    service_setup s;
    s.committed_at_start = 0;
    s.extent = 1;
    service_rig host{s};
    host.service.report_to({&log.add_queue(4), nullptr});
    host.grower.report_to({&log.add_queue(4), nullptr});
    log.add_sink(sink);
    log.start();
    host.grower.start();
    ring_client client(host.box);
    // Far more events than the queues hold: each grant waits for a commit of one segment.
    for (int i = 0; i < 100; ++i) {
        (void)client.ask(1);
        ASSERT_EQ(await_response(host, client).status, mailbox::response_status::granted);
    }
    host.grower.stop();
    sink.goes_on = true;
    log.stop();
    // A grant and a commit at least for each request.
    EXPECT_GE(sink.taken + sink.lost_events, 200u);
    EXPECT_GT(sink.lost_events, 0u);
    EXPECT_EQ(log.passed(), sink.taken);
    EXPECT_EQ(log.lost(), sink.lost_events);
}

}  // namespace
}  // namespace orchard::rig
