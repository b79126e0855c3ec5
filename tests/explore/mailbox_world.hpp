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

/// How a request ended.
struct reply {
    failure_reason why = failure_reason::none;                            ///< none: an answer came
    mailbox::response_status status = mailbox::response_status::refused;  ///< of the answer
    segment_run run{segment_index{0}, 0};

    [[nodiscard]] bool answered() const { return why == failure_reason::none; }
    [[nodiscard]] bool granted() const { return answered() && status == mailbox::response_status::granted; }
};

class mailbox_world {
public:
    mailbox_world(world& w, const heap_setup& setup) : heap{w, setup}, s{w.s}, box{heap.view.mailboxes[0]} {}

    // All lanes of a converged group call these, with the same arguments.

    /// Asks for `k` segments and waits. What is granted is checked: it is as long as was asked for, the service has
    /// granted all of it and nobody else owns any of it; every lane of the group then writes there.
    reply ask(simt::lane_mask mask, std::uint32_t k);
    /// Checks that the run is as its owners left it, and returns it; with `wait`, until the service has taken it back.
    /// Otherwise it goes into the segment cache where no slot is free.
    failure_reason give(simt::lane_mask mask, segment_run run, bool wait);
    /// Asks for an answer, nothing else.
    reply ping(simt::lane_mask mask);
    /// Posts a request for `k` segments or fewer that nobody waits for; whether a slot was free.
    bool ask_unattended(simt::lane_mask mask, std::uint32_t k);

    /// Checks, at every change, what the mailbox's words may become: that no more posts are in flight than there are
    /// slots; that a post was read, and an answer passed by its poller, before it is written over; that slots and
    /// pollers' words change as their states allow.
    void watch_protocol();
    /// With `watch_protocol`: that answers are read by nobody but their ring's poller. Only where no poller is taken
    /// for lost.
    bool only_pollers_read = false;

    /// A group takes a run from the segment cache, if there is one, and uses it as `ask` does.
    bool take_aside(simt::lane_mask mask, std::uint32_t k, segment_run* run);

    /// After a run: everything has ended well; nothing is owned, under way or missing, and all validators agree.
    void settle_and_check();

    heap_world heap;
    simt::explore::simulation& s;
    const device::mailbox_client& box;

    /// Called, with `watch_protocol`, in the actor that has just made a change that only pollers make: has taken or
    /// kept the lease, put an answer into its slot, or taken it aside.
    std::function<void()> on_poller = [] {};

    // What the watched words have shown.
    std::uint64_t tickets = 0;  ///< taken
    std::uint64_t slots_freed = 0;
    std::uint64_t posts_read = 0;   ///< by the service
    std::uint64_t delivered = 0;    ///< answers put into slots
    std::uint64_t taken_aside = 0;  ///< answers that nobody waited for

private:
    void touch(simt::lane_mask mask, segment_run run, bool first);
    void watch_post(std::uint32_t position);
    void watch_answer(std::uint32_t position);
    void watch_slot(std::uint32_t slot);
    void watch_poller(std::uint32_t ring);
    void check_lease(std::uint64_t before, std::uint64_t after);
    [[nodiscard]] device::cache_completion completion() const { return device::cache_completion{heap.view}; }

    struct ring_state {
        std::uint64_t answers = 0;  // written
        std::uint64_t word = 0;     // the poller's
        std::uint64_t holder = 0;   // the warp that took the lease last
    };
    std::array<ring_state, mailbox::max_pollers> rings_;
};

}  // namespace orchard::explore
