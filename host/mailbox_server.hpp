// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The host's side of the mailbox.

#include <array>
#include <cstddef>
#include <cstdint>

#include "uvm/geometry/mailbox.hpp"

namespace orchard {

/// The host's side of the mailbox: reads requests in the order of their tickets, and writes responses in the order in
/// which it is given them. uvm/geometry/mailbox.hpp describes the layout, and why neither ring can overrun. One thread
/// uses it.
class mailbox_server {
public:
    mailbox_server(mailbox::host_part memory, mailbox::shape shape) : memory_{memory}, shape_{shape} {}

    /// Reads the next request. Returns false if none has arrived. Acquires what its group released. Cost: one load of
    /// host memory that misses the cache, because the device has just written the line; a prefetch hides part of it.
    bool next(mailbox::request* out) {
        if (read_ % line == 0) {
            __builtin_prefetch(&memory_.requests[shape_.position(read_ + 4 * line)], 0);
        }
        const std::uint64_t word = memory_.requests[shape_.position(read_)].load<simt::order::acquire>();
        if (mailbox::request::lap_field::get(word) != shape_.lap_tag(read_)) {
            return false;
        }
        *out = mailbox::request::unpack(word);
        ++read_;
        return true;
    }

    /// Queues a response, in any order of requests. It is sent by `flush`, or when eight responses of one ring (a cache
    /// line) have accumulated. The poller reads the line that is being written, and each store that comes between its
    /// reads costs a cache miss.
    void respond(const mailbox::response& a) {
        const std::uint32_t ring = shape_.response_ring(a.slot);
        outbox& box = outboxes_[ring];
        box.responses[box.count++] = a;
        ++answered_;
        if (box.count == box.responses.size()) {
            send(ring, box);
        }
    }

    /// Sends all queued responses. Each store releases what was done for its response; pairs with the poller's acquire
    /// or fence (`read_batch`, `end_reading`).
    void flush() {
        for (std::uint32_t ring = 0; ring < shape_.pollers; ++ring) {
            send(ring, outboxes_[ring]);
        }
    }

    /// Raises the heartbeat, which shows that the service is alive.
    void heartbeat() { memory_.heartbeat->store<simt::order::relaxed>(++heartbeats_); }
    /// Shows the device that requests for at least this many leaves fail because a commit is blocked; 0: no commit is
    /// blocked. Cost: none if the value has not changed.
    void show_blocked(std::uint64_t leaves) {
        if (leaves != blocked_) {
            blocked_ = leaves;
            memory_.blocked->store<simt::order::relaxed>(leaves);
        }
    }
    [[nodiscard]] std::uint64_t shown_blocked() const { return blocked_; }

    [[nodiscard]] mailbox::shape shape() const { return shape_; }
    /// Returns the number of requests read but not answered yet.
    [[nodiscard]] std::uint64_t outstanding() const { return read_ - answered_; }

private:
    static constexpr std::uint64_t line = 8;  ///< words of a cache line

    /// Responses of one ring that are not sent yet.
    struct outbox {
        std::array<mailbox::response, line> responses{};
        std::size_t count = 0;
        std::uint64_t sent = 0;
    };

    void send(std::uint32_t ring, outbox& box) {
        if (box.count == 0) {
            return;
        }
        __builtin_prefetch(&memory_.responses[shape_.response_position(ring, box.sent + 2 * line)], 1);
        for (std::size_t i = 0; i < box.count; ++i, ++box.sent) {
            memory_.responses[shape_.response_position(ring, box.sent)].store<simt::order::release>(
                box.responses[i].pack(shape_.response_lap_tag(box.sent)));
        }
        box.count = 0;
    }

    mailbox::host_part memory_;
    mailbox::shape shape_;
    std::uint64_t read_ = 0;
    std::uint64_t answered_ = 0;
    std::uint64_t heartbeats_ = 0;
    std::uint64_t blocked_ = 0;
    std::array<outbox, mailbox::max_pollers> outboxes_{};
};

}  // namespace orchard
