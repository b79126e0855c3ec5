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
/// uses it: the service thread. Nothing is allocated, and no call waits.
///
///     request ring     ... | r | r | r | old | old | ...      r: written by groups of the device
///                            ^read_                           old: the lap tag shows a word of the lap before
///
///     response ring    ... | a | a | . | . | ...              one outbox for each ring holds up to 8 responses
///                                    ^sent                    that are not in the ring yet
class mailbox_server {
public:
    /// Begins at the first word of each ring. The words of `memory` are zero: no lap tag of the first lap is 0, so that
    /// they count as not written.
    mailbox_server(mailbox::host_part memory, mailbox::shape shape) : memory_{memory}, shape_{shape} {}

    /// Reads the next request into `*out`, and returns true; returns false if none has arrived. The acquire pairs with
    /// the release in `write_request` (device/host_rpc/post.cuh) of a request that returns memory: the writes of the
    /// last owner come before those of the next one.
    ///
    /// Requests are read strictly in order. If the next position is empty while later ones are filled, this returns
    /// false: the group with that ticket has not written its word yet, or the word is still on its way over the bus. No
    /// acknowledgement of a read is needed, since a position is written again only after it was read
    /// (uvm/geometry/mailbox.hpp says why).
    ///
    /// Cost: one load of host memory that misses the cache, because the device has just written the line; a prefetch of
    /// the line that is four lines ahead hides part of it.
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
    /// line) have accumulated. The responses are not stored one by one, because the poller reads the line that is being
    /// written, and each store that comes between its reads costs a cache miss. The caller must call `flush` at the end
    /// of its turn: until then a group waits for a response that is not in the ring.
    void respond(const mailbox::response& a) {
        const std::uint32_t ring = shape_.response_ring(a.slot);
        outbox& box = outboxes_[ring];
        box.responses[box.count++] = a;
        ++answered_;
        if (box.count == box.responses.size()) {
            send(ring, box);
        }
    }

    /// Sends all queued responses. Each store releases the work done for its response: the commit of the memory that it
    /// grants, and the last owner's writes, which `next` acquired. Pairs with the poller's acquire or fence
    /// (`read_batch`, `end_reading`). Cost: none for a ring without queued responses.
    void flush() {
        for (std::uint32_t ring = 0; ring < shape_.pollers; ++ring) {
            send(ring, outboxes_[ring]);
        }
    }

    /// Raises the heartbeat, which shows that the service is alive. The service calls it in each round, at least once a
    /// millisecond. Relaxed: a waiting group only compares two values of the word and reads nothing through it.
    void heartbeat() { memory_.heartbeat->store<simt::order::relaxed>(++heartbeats_); }
    /// Shows the device that requests for at least this many leaves fail because a commit is blocked; 0: no commit is
    /// blocked. A group that has noted such a failure compares its note with this word, so that later requests of that
    /// size fail without a round trip. Relaxed: the word is a hint, and each group may see it late. Cost: none if the
    /// value has not changed.
    void show_blocked(std::uint64_t leaves) {
        if (leaves != blocked_) {
            blocked_ = leaves;
            memory_.blocked->store<simt::order::relaxed>(leaves);
        }
    }
    /// Returns the value last given to `show_blocked`; 0 at first.
    [[nodiscard]] std::uint64_t shown_blocked() const { return blocked_; }

    [[nodiscard]] mailbox::shape shape() const { return shape_; }
    /// Returns the number of requests read but not answered yet; a response that is queued counts as given.
    [[nodiscard]] std::uint64_t outstanding() const { return read_ - answered_; }

private:
    // The unit in which words move between the two sides: requests are prefetched, and responses sent, line by line.
    static constexpr std::uint64_t line = 8;  ///< words of a cache line, 64 bytes

    /// Responses of one ring that are not sent yet, and the number of responses ever sent to that ring: the position of
    /// the next one.
    struct outbox {
        std::array<mailbox::response, line> responses{};
        std::size_t count = 0;
        std::uint64_t sent = 0;
    };

    /// Writes the queued responses of one ring, each with the lap tag of its position, and empties the outbox. The ring
    /// has room: it is twice as long as the number of responses that may be undelivered. The prefetch, for writing,
    /// brings the line that lies two lines ahead into this core's cache before it is needed.
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
    // How many requests were read and answered; their difference is `outstanding`.
    std::uint64_t read_ = 0;
    std::uint64_t answered_ = 0;
    // The host's copies of the words `heartbeat` and `blocked`, which the service therefore never loads.
    std::uint64_t heartbeats_ = 0;
    std::uint64_t blocked_ = 0;
    std::array<outbox, mailbox::max_pollers> outboxes_{};
};

}  // namespace orchard
