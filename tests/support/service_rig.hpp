// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A service with its mailbox and growth, without threads and without a device.

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "host/segment_service.hpp"
#include "tests/support/fake_backing.hpp"
#include "tests/support/mailbox_memory.hpp"

namespace orchard::rig {

struct service_setup {
    mailbox::shape shape{64, 8};
    std::uint32_t segments = 256;
    std::uint32_t committed_at_start = 256;  ///< the first ones
    std::uint32_t extent = 32;
    std::uint32_t ahead = 0;
    portion_policy portions = portion_policy::packed;
    bool at_once = false;  ///< the backing's `decommits_at_once`
    std::uint64_t patience_ns = ~std::uint64_t{0};
    std::uint32_t apart_one_of = 0;
    bool fences = false;        ///< between extents
    bool takes_advice = false;  ///< the backing's `takes_advice`
};

struct service_rig {
    explicit service_rig(const service_setup& s = {})
        : box{s.shape},
          memory{s.segments, s.committed_at_start, s.at_once, s.takes_advice},
          grower{memory, s.extent},
          service{mailbox_server(box.host, s.shape), grower,
                  service_settings{s.ahead, 0, s.portions, s.patience_ns, s.apart_one_of}} {
        if (s.fences) {
            grower.limit(s.segments / 4);
            grower.fence_extents();
        }
    }

    mailbox_memory box;
    fake_backing memory;
    growth grower;
    segment_service service;
};

/// Sends requests as the device does, and reads the responses as a poller does, but in the test's own thread. At most
/// as many requests are in flight as there are slots: a slot is free again once its response was taken.
class ring_client {
public:
    explicit ring_client(mailbox_memory& box) : box_{box} {
        for (std::uint32_t i = box.shape.slots; i != 0; --i) {
            free_.push_back({i - 1, 0});
        }
    }
    /// Identifies the response to a request.
    struct id {
        std::uint32_t slot = 0;
        std::uint32_t tag = 0;
        friend bool operator==(const id&, const id&) = default;
    };

    /// Precondition: fewer requests in flight than slots.
    id post(mailbox::request_kind kind, segment_run run = {segment_index{0}, 0}, bool or_fewer = false,
            std::uint32_t leaves = 0, advice_code advice = 0) {
        const id mine = free_.back();
        free_.pop_back();
        const mailbox::request p{kind, mine.slot, mine.tag, run, or_fewer, advice, leaf_count{leaves}};
        box_.host.requests[box_.shape.position(ticket_)].store<simt::order::release>(
            p.pack(box_.shape.lap_tag(ticket_)));
        ++ticket_;
        return mine;
    }
    id ask(std::uint32_t count) { return post(mailbox::request_kind::grant, {segment_index{0}, count}); }
    /// `count` segments that are to be advised so.
    id ask_advised(std::uint32_t count, advice_code advice) {
        return post(mailbox::request_kind::grant, {segment_index{0}, count}, false, 0, advice);
    }
    /// A chunk of `count` segments and a tail.
    id ask_chunk(std::uint32_t count, std::uint32_t leaves) {
        return post(mailbox::request_kind::grant, {segment_index{0}, count}, false, leaves);
    }
    id give_back_portion(std::uint32_t block, std::uint32_t leaf) {
        return post(mailbox::request_kind::give_back,
                    mailbox::request::return_of(segment_index{block}, leaf_index{leaf}).run);
    }
    id ask_or_fewer(std::uint32_t count) { return post(mailbox::request_kind::grant, {segment_index{0}, count}, true); }
    id give_back(std::uint32_t first, std::uint32_t count) {
        return post(mailbox::request_kind::give_back, {segment_index{first}, count});
    }
    id extend(std::uint32_t first, std::uint32_t count) {
        return post(mailbox::request_kind::extend, {segment_index{first}, count});
    }
    id ping() { return post(mailbox::request_kind::ping); }

    /// Returns the next response, if it has arrived.
    std::optional<mailbox::response> take() {
        for (std::uint32_t ring = 0; ring < box_.shape.pollers; ++ring) {
            const std::uint64_t cursor = cursors_[ring];
            const std::uint64_t word =
                box_.host.responses[box_.shape.response_position(ring, cursor)].load<simt::order::acquire>();
            if (mailbox::response::lap_field::get(word) == box_.shape.response_lap_tag(cursor)) {
                ++cursors_[ring];
                const auto a = mailbox::response::unpack(word);
                free_.push_back({a.slot, (a.tag + 1) & box_.shape.tag_mask()});
                return a;
            }
        }
        return std::nullopt;
    }

    [[nodiscard]] std::uint64_t in_flight() const { return box_.shape.slots - free_.size(); }

private:
    mailbox_memory& box_;
    std::vector<id> free_;
    std::uint64_t ticket_ = 0;
    std::array<std::uint64_t, mailbox::max_pollers> cursors_{};
};

/// Polls until there is a response, and returns it.
inline mailbox::response await_response(service_rig& host, ring_client& client) {
    for (;;) {
        host.service.poll_once();
        if (const auto a = client.take()) {
            return *a;
        }
    }
}

inline ring_client::id id_of(const mailbox::response& a) { return {a.slot, a.tag}; }

}  // namespace orchard::rig
