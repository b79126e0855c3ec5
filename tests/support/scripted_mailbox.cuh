// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A mailbox whose device side is a lone lane, the test's own thread, and whose host side answers what the test says.

#include <utility>

#include "device/host_rpc/client.cuh"
#include "host/mailbox_server.hpp"
#include "tests/support/mailbox_memory.hpp"
#include "tests/support/sinks.cuh"

namespace orchard::rig {

/// The mask of a lone lane.
inline constexpr simt::lane_mask alone = 1;

/// A post for `count` segments.
inline mailbox::post grant_of(std::uint32_t count) {
    return {mailbox::post_kind::grant, 0, 0, {segment_index{0}, count}, false};
}

struct scripted_mailbox : mailbox_memory {
    explicit scripted_mailbox(mailbox::shape s, std::uint64_t timeout_ns = 10'000'000'000)
        : mailbox_memory{s}, server{host, s}, client{host, device, s, timeout_ns} {}

    device::receipt ask(std::uint32_t count) { return client.post(alone, grant_of(count), false, sink()); }
    device::receipt ask_unattended(std::uint32_t count) { return client.post(alone, grant_of(count), true, sink()); }
    device::outcome wait(device::receipt r) { return client.wait(alone, r, sink()); }
    void courier_round() { client.courier_round(alone, sink()); }
    [[nodiscard]] recording_sink sink() { return {&sunk}; }

    /// Takes the next post, which must have been written, and answers it: a run from `first` on.
    mailbox::answer serve(std::uint32_t first) {
        mailbox::post p;
        if (!server.next(&p)) {
            return {device::answer_status::refused, 0, 0, {no_segment, 0}};
        }
        const mailbox::answer a{device::answer_status::granted, p.slot, p.tag, {segment_index{first}, 0}};
        server.answer(a);
        server.flush();
        server.beat();
        return a;
    }
    /// Takes the courier's office, as a group would that then stops.
    std::uint64_t take_office_and_stop() {
        const std::uint64_t word = device::courier_word::succeeded(courier());
        set_courier(word);
        return word;
    }
    /// Delivers an answer, as a courier would that then stops.
    void deliver(const mailbox::answer& a) { set_slot(a.slot, device::slot_word::delivered(a)); }

    mailbox_server server;
    device::mailbox_client client;
    sink_record sunk;
};

}  // namespace orchard::rig
