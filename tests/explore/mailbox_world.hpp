// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A heap of which the lanes use the mailbox directly, without segment cache and slabs in between, with oracles on its
/// words.

#include <array>
#include <cstdint>
#include <functional>

#include "device/reclaim/acquire.cuh"
#include "tests/explore/heap_world.hpp"

namespace orchard::explore {

/// The result of a request.
struct reply {
    failure_reason why = failure_reason::none;                             ///< none: a response arrived
    mailbox::response_status status = mailbox::response_status::rejected;  ///< of the response
    segment_run run{segment_index{0}, 0};

    [[nodiscard]] bool answered() const { return why == failure_reason::none; }
    [[nodiscard]] bool granted() const { return answered() && status == mailbox::response_status::granted; }
};

class mailbox_world {
public:
    mailbox_world(world& w, const heap_setup& setup) : heap{w, setup}, s{w.s}, box{heap.view.mailbox} {}

    // All lanes of a converged group call these, with the same arguments.

    /// Requests `k` segments and waits. Checks that the grant has the requested length, that the service has granted
    /// all of it, and that no other owner has any of it. Then every lane of the group writes there.
    reply ask(simt::lane_mask mask, std::uint32_t k);
    /// Checks that the run is as its owners left it, and returns it. With `wait`, waits until the service has taken it
    /// back; otherwise puts it into the segment cache if no slot is free.
    failure_reason give(simt::lane_mask mask, segment_run run, bool wait);
    /// Requests a response and nothing else.
    reply ping(simt::lane_mask mask);
    /// Sends a request for `k` segments or fewer for which no group waits; returns whether a slot was free.
    bool ask_unattended(simt::lane_mask mask, std::uint32_t k);

    /// Checks every change of the mailbox's words: at most as many requests are in flight as there are slots; a request
    /// is read, and a response passed by its poller, before it is overwritten; slots and pollers' words change as their
    /// states allow.
    void watch_protocol();
    /// With `watch_protocol`: checks that only a ring's poller reads its responses. Only valid if no poller is taken
    /// for stopped.
    bool only_pollers_read = false;

    /// Lets a group take a run from the segment cache, if there is one, and use it as `ask` does.
    bool take_aside(simt::lane_mask mask, std::uint32_t k, segment_run* run);

    /// After a run: checks that everything has ended well; nothing is owned, outstanding or missing, and all validators
    /// agree.
    void settle_and_check();

    heap_world heap;
    simt::explore::simulation& s;
    const device::mailbox_client& box;

    /// Called, with `watch_protocol`, in the actor that has just made a change that only pollers make: it has taken or
    /// kept the lease, put a response into its slot, or put the memory of a response without owner into the segment
    /// cache.
    std::function<void()> on_poller = [] {};

    // The observations of the watched words.
    std::uint64_t tickets = 0;  ///< taken
    std::uint64_t slots_freed = 0;
    std::uint64_t requests_read = 0;  ///< by the service
    std::uint64_t delivered = 0;      ///< responses put into slots
    std::uint64_t taken_aside = 0;    ///< responses for which no group waited

private:
    void touch(simt::lane_mask mask, segment_run run, bool first);
    void watch_request(std::uint32_t position);
    void watch_response(std::uint32_t position);
    void watch_slot(std::uint32_t slot);
    void watch_poller(std::uint32_t ring);
    void check_lease(std::uint64_t before, std::uint64_t after);
    [[nodiscard]] device::cache_completion completion() const { return device::cache_completion{heap.view}; }

    struct ring_state {
        std::uint64_t responses = 0;  // written
        std::uint64_t word = 0;       // the poller's
        std::uint64_t holder = 0;     // the warp that took the lease last
    };
    std::array<ring_state, mailbox::max_pollers> rings_;
    std::array<bool, 64> sent_{};  // whether a request of the slot's present use was written
};

}  // namespace orchard::explore
