// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/trace/kernel_events.hpp"

#include <algorithm>
#include <utility>

#include "device/simt/lane.cuh"

namespace orchard {
namespace {

using device::device_event;
using device::event_words;

/// Returns the kind that traces have; `none` and unknown kinds cannot occur, as each word carries its mark.
event_kind kind_of(device_event kind) {
    switch (kind) {
        case device_event::none:
        case device_event::block_allocated: return event_kind::block_allocated;
        case device_event::block_freed: return event_kind::block_freed;
        case device_event::block_tagged: return event_kind::block_tagged;
        case device_event::slab_opened: return event_kind::slab_opened;
        case device_event::slab_retired: return event_kind::slab_retired;
        case device_event::shortage: return event_kind::shortage;
    }
    return event_kind::block_allocated;
}

}  // namespace

/// Reads the slot of the next ticket. Returns false if a word of it is not written yet. Relaxed: each word carries its
/// mark, and the event tells of nothing but itself.
bool kernel_events::take_next(event& e) {
    const std::uint64_t ticket = read_.load(std::memory_order_relaxed);
    const std::uint64_t mark = event_words::mark_of(ticket / ring_.slots);
    std::uint64_t value[device::event_ring::words_a_slot];
    const simt::host_word<std::uint64_t>* word = ring_.words + ticket % ring_.slots;
    for (std::uint64_t& v : value) {
        const std::uint64_t found = word->load<simt::order::relaxed>();
        if (found >> event_words::mark_shift != mark) {
            return false;
        }
        v = found & event_words::value_mask;
        word += ring_.slots;
    }
    e.time_ns = value[0];
    e.at = value[1];
    e.bytes = value[2];
    e.thread = static_cast<std::uint32_t>(value[3]);
    e.detail = static_cast<std::uint32_t>(value[3] >> event_words::detail_shift) & event_words::detail_mask;
    e.kind = kind_of(static_cast<device_event>(value[3] >> event_words::kind_shift));
    return true;
}

std::size_t kernel_events::drain(std::span<event> out, std::uint64_t* lost) {
    const std::scoped_lock lock(mutex_);
    *lost += std::exchange(lost_, 0);
    const std::uint64_t now = simt::clock_ns();
    std::uint64_t next = read_.load(std::memory_order_relaxed);
    std::size_t count = 0;
    while (count < out.size()) {
        event& e = out[count];
        if (!of_host_.empty() && of_host_.front().before <= next) {
            e = of_host_.front().what;
            of_host_.pop_front();
        } else if (take_next(e)) {
            if (clocks_differ_) {
                distance_ns_ = std::min(distance_ns_, static_cast<std::int64_t>(now - e.time_ns));
                e.time_ns += static_cast<std::uint64_t>(distance_ns_);
            }
            read_.store(++next, std::memory_order_relaxed);
        } else {
            break;
        }
        ++count;
    }
    // Release: pairs with the acquire of a group that waits for room. It then writes slots that this thread has read.
    ring_.progress->store<simt::order::release>(next);
    return count;
}

absl::Status kernel_events::add_of_host(const event& e,
                                        absl::FunctionRef<absl::StatusOr<std::uint64_t>()> read_ticket) {
    const std::scoped_lock lock(mutex_);
    const auto ticket = read_ticket();
    if (!ticket.ok()) {
        return ticket.status();
    }
    of_host_.push_back({*ticket, e});
    return absl::OkStatus();
}

void kernel_events::end(std::uint64_t tickets, std::uint64_t lost) {
    const std::scoped_lock lock(mutex_);
    // Those behind a gap are counted, too: what they tell of blocks could not be replayed.
    lost_ += lost + (tickets - read_.load(std::memory_order_relaxed));
    for (host_event& h : of_host_) {
        h.before = 0;
    }
}

}  // namespace orchard
