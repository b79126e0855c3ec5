// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The host's end of the ring through which kernels report events (device/state/event_ring.cuh).

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/state/event_ring.cuh"
#include "host/events/event_sink.hpp"

namespace orchard {

/// The memory of a ring in the host's reach: `words_a_slot` arrays of `slots` words, then the host's progress.
struct event_ring_memory {
    simt::host_word<std::uint64_t>* words;
    simt::host_word<std::uint64_t>* progress;
    std::uint64_t slots;

    static constexpr std::uint64_t bytes_for(std::uint64_t slots) {
        return (device::event_ring::words_a_slot * slots + 1) * sizeof(std::uint64_t);
    }
    static event_ring_memory in(void* memory, std::uint64_t slots) {
        auto* const words = static_cast<simt::host_word<std::uint64_t>*>(memory);
        return {words, words + device::event_ring::words_a_slot * slots, slots};
    }
};

/// Takes the events of kernels out of the ring, in the order of their tickets, and adds those of the host's blocks at
/// their place among them.
///
/// The device's clock is another one than the host's: its distance is estimated as the least difference between the
/// time at which an event was read and that at which it was written.
class kernel_events final : public event_source {
public:
    /// @param clocks_differ  the device's clock is not the host's
    kernel_events(const event_ring_memory& ring, bool clocks_differ) : ring_{ring}, clocks_differ_{clocks_differ} {}

    std::size_t drain(std::span<event> out, std::uint64_t* lost) override;

    /// Adds an event of a block that the host has allocated or is about to free. `read_ticket` returns the ring's
    /// number of tickets; no event is taken out meanwhile. Every event of a kernel with a ticket below it comes before
    /// this one, all others after it. An allocation calls it when the block is there, before the program knows it; a
    /// free before the block is queued for the device. Any thread may call it. Errors: those of `read_ticket`.
    absl::Status add_of_host(const event& e, absl::FunctionRef<absl::StatusOr<std::uint64_t>()> read_ticket);

    /// Says, when all kernels have ended, how many tickets were taken and how many events got none, by the counts of
    /// the device. Tickets that were not read before are counted as lost in the next `drain`.
    void end(std::uint64_t tickets, std::uint64_t lost);

    /// Returns the number of events that were read from the ring so far. Any thread may call it.
    [[nodiscard]] std::uint64_t read() const { return read_.load(std::memory_order_relaxed); }

private:
    struct host_event {
        std::uint64_t before;  ///< it comes before the kernel's event with this ticket
        event what;
    };

    bool take_next(event& e);

    event_ring_memory ring_;
    std::mutex mutex_;
    std::deque<host_event> of_host_;
    std::atomic<std::uint64_t> read_{0};
    bool clocks_differ_;
    std::int64_t distance_ns_ = std::numeric_limits<std::int64_t>::max();  ///< of the host's clock from the device's
    std::uint64_t lost_ = 0;
};

}  // namespace orchard
