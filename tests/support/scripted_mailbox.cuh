// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A mailbox whose device side is a single lane, the test's own thread, and whose host side sends the test's responses.

#include <utility>

#include "device/host_rpc/post.cuh"
#include "host/mailbox_server.hpp"
#include "tests/support/mailbox_memory.hpp"
#include "tests/support/sinks.cuh"

namespace orchard::rig {

/// The mask of a lone lane.
inline constexpr simt::lane_mask alone = 1;

/// Returns a request for `count` segments.
inline mailbox::request grant_of(std::uint32_t count) {
    return {mailbox::request_kind::grant, 0, 0, {segment_index{0}, count}, false};
}

struct scripted_mailbox : mailbox_memory {
    explicit scripted_mailbox(mailbox::shape s, std::uint64_t timeout_ns = 10'000'000'000)
        : mailbox_memory{s}, server{host, s}, client{host, device, s, timeout_ns} {}

    device::ticket ask(std::uint32_t count) { return client.post(alone, grant_of(count), false, completion()); }
    device::ticket ask_unattended(std::uint32_t count) {
        return client.post(alone, grant_of(count), true, completion());
    }
    device::outcome wait(device::ticket r) { return client.wait(alone, r, completion()); }
    void poller_round() { client.poller_round(alone, completion()); }
    [[nodiscard]] recording_completion completion() { return {&sunk}; }

    /// Takes the next request, which must have been written, and answers it with a run from `first` on.
    mailbox::response serve(std::uint32_t first) {
        mailbox::request p;
        if (!server.next(&p)) {
            return {device::response_status::rejected, 0, 0, {no_segment, 0}};
        }
        const mailbox::response a{device::response_status::granted, p.slot, p.tag, {segment_index{first}, 0}};
        server.respond(a);
        server.flush();
        server.heartbeat();
        return a;
    }
    /// Takes the poller's lease, as a group would that then stops.
    std::uint64_t take_lease_and_stop() {
        const std::uint64_t word = device::poller_word::succeeded(poller());
        set_poller(word);
        return word;
    }
    /// Delivers a response, as a poller that then stops would do.
    void deliver(const mailbox::response& a) { set_slot(a.slot, device::slot_word::delivered(a)); }

    mailbox_server server;
    device::mailbox_client client;
    completion_record sunk;
};

}  // namespace orchard::rig
