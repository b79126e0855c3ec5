// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The ring through which kernels report events, with a host that reads at other times than it should. Each call is
/// that of a warp of one lane.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "device/state/event_writer.cuh"
#include "runtime/trace/kernel_events.hpp"

namespace orchard::test {
namespace {

using simt::order;

constexpr std::uint64_t slots = 32;

class event_ring : public testing::Test {
protected:
    event_ring() {
        const event_ring_memory in = event_ring_memory::in(memory_.data(), slots);
        ring.room.store<order::relaxed>(slots);
        ring.words = in.words;
        ring.progress = in.progress;
        ring.slots = slots;
        ring.log_slots = 5;
        ring.timeout_ns = 1'000'000;
        view.events = &ring;
    }

    void report(std::uint64_t n) {
        device::report_block(view, device::device_event::block_allocated, n << 40, 3 * n,
                             static_cast<std::uint32_t>(n));
    }
    /// Returns all events that are there, and adds those lost to `lost`.
    std::vector<event> drain() {
        std::vector<event> all(1000);
        all.resize(source.drain(all, &lost));
        return all;
    }

private:
    std::vector<std::uint64_t> memory_ = std::vector<std::uint64_t>(event_ring_memory::bytes_for(slots) / 8);

protected:
    device::event_ring ring{};
    device::heap_view view;
    kernel_events source{event_ring_memory::in(memory_.data(), slots), false};
    std::uint64_t lost = 0;
};

TEST_F(event_ring, brings_all_fields_over_many_laps) {
    std::uint64_t next = 1;
    for (int turn = 0; turn < 20; ++turn) {
        const std::uint64_t first = next;
        for (; next < first + 23; ++next) {
            report(next);
        }
        const auto events = drain();
        ASSERT_EQ(events.size(), 23u);
        for (std::size_t i = 0; i < events.size(); ++i) {
            const std::uint64_t n = first + i;
            EXPECT_EQ(events[i].at, n << 40);
            EXPECT_EQ(events[i].bytes, 3 * n);
            EXPECT_EQ(events[i].detail, n);
            EXPECT_EQ(events[i].kind, event_kind::block_allocated);
            EXPECT_NE(events[i].time_ns, 0u);
        }
    }
    EXPECT_EQ(lost, 0u);
    EXPECT_EQ(ring.waits.load<order::relaxed>(), 0u);
    EXPECT_EQ(ring.waited_ns.load<order::relaxed>(), 0u);
}

TEST_F(event_ring, counts_the_groups_that_wait_for_room) {
    ring.timeout_ns = 60'000'000'000;
    for (std::uint64_t n = 0; n < slots; ++n) {
        report(n);
    }
    EXPECT_EQ(ring.waits.load<order::relaxed>(), 0u);
    std::thread reader([&] {
        // The next report has its ticket, and finds no room.
        while (ring.ticket.load<order::relaxed>() == slots) {
            absl::SleepFor(absl::Microseconds(50));
        }
        absl::SleepFor(absl::Milliseconds(500));
        EXPECT_EQ(drain().size(), slots);
    });
    report(slots);
    reader.join();
    EXPECT_EQ(drain().size(), 1u);
    EXPECT_EQ(ring.waits.load<order::relaxed>(), 1u);
    EXPECT_GT(ring.waited_ns.load<order::relaxed>(), 0u);
    report(slots + 1);
    EXPECT_EQ(ring.waits.load<order::relaxed>(), 1u);
}

TEST_F(event_ring, ends_at_a_gap_if_the_host_does_not_read) {
    for (std::uint64_t n = 0; n < slots + 5; ++n) {
        report(n);  // the one after the last slot waits in vain; those after it do not wait
    }
    EXPECT_EQ(ring.is_broken.load<order::relaxed>(), 1u);
    EXPECT_EQ(drain().size(), slots);
    for (std::uint64_t n = 0; n < 7; ++n) {
        report(n);  // there is room again, but events are missing
    }
    EXPECT_TRUE(drain().empty());
    source.end(ring.ticket.load<order::relaxed>(), ring.lost.load<order::relaxed>());
    EXPECT_TRUE(drain().empty());
    EXPECT_EQ(lost, 12u);
    EXPECT_EQ(ring.waits.load<order::relaxed>(), 1u);
    EXPECT_GE(ring.waited_ns.load<order::relaxed>(), ring.timeout_ns);
}

TEST_F(event_ring, leaves_out_notes_without_room) {
    for (std::uint32_t n = 0; n < slots + 5; ++n) {
        device::note_event(view, device::device_event::slab_opened, n, 7);
    }
    const auto events = drain();
    ASSERT_EQ(events.size(), slots);
    EXPECT_EQ(events[3].at, 3 * segment_bytes);
    EXPECT_EQ(events[3].bytes, segment_bytes);
    EXPECT_EQ(events[3].detail, 7u);
    EXPECT_EQ(ring.lost_notes.load<order::relaxed>(), 5u);
    EXPECT_EQ(ring.is_broken.load<order::relaxed>(), 0u);
    device::note_event(view, device::device_event::shortage, 1 << 20, 4);
    const auto after = drain();
    ASSERT_EQ(after.size(), 1u);
    EXPECT_EQ(after[0].at, 0u);
    EXPECT_EQ(after[0].bytes, 1u << 20);
    EXPECT_EQ(after[0].kind, event_kind::shortage);
}

TEST_F(event_ring, puts_events_of_the_host_at_their_ticket) {
    const auto ticket = [&]() -> absl::StatusOr<std::uint64_t> { return ring.ticket.load<order::relaxed>(); };
    report(1);
    ASSERT_TRUE(source.add_of_host({.bytes = 100, .thread = host_thread}, ticket).ok());
    report(2);
    report(3);
    ASSERT_TRUE(source.add_of_host({.bytes = 200, .thread = host_thread}, ticket).ok());
    std::vector<std::uint64_t> bytes;
    for (const event& e : drain()) {
        bytes.push_back(e.bytes);
    }
    EXPECT_EQ(bytes, (std::vector<std::uint64_t>{3, 100, 6, 9, 200}));
}

}  // namespace
}  // namespace orchard::test
