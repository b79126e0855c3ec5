// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The device's side of the mailbox: posting a request, waiting for its response, and being poller.
/// uvm/geometry/mailbox.hpp defines the layout of all words and the states of a slot; docs/protocol.md describes the
/// protocol.
///
/// All lanes of a converged group (`mask`) call each function, unless its comment says otherwise; the lowest lane acts
/// for all. A `Completion` is called as `completion(response_status, mailbox::grant&)` for each response without a
/// waiter. Any lanes call it, alone or together; it must not wait and must not use collectives.
///
/// All of this is reached from `malloc`. A kernel needs as many registers as its deepest chain of calls, frame by
/// frame. Therefore state that outlives one phase lies in the lane's local memory (`rpc_context`), each phase is a
/// separate function that gets a reference to this state, and the chain is short.

#include <cstdint>

#include "device/group/leader.cuh"
#include "device/host_rpc/poller_settings.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/mailbox.hpp"

namespace orchard::device {

using mailbox::poller_word;
using mailbox::response;
using mailbox::response_status;
using mailbox::slot_word;

/// What a group keeps of a request that it sent.
struct ticket {
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;
    std::uint32_t count = 0;                        ///< segments wanted
    std::uint32_t leaves = 0;                       ///< leaves of the tail wanted
    failure_reason failure = failure_reason::none;  ///< why nothing was posted
};

/// The end of a wait: `failure` is `none` if and only if `result` is a response.
struct outcome {
    response result;
    failure_reason failure = failure_reason::none;
    leaf_index leaf{0};  ///< where the granted tail begins
};

class mailbox_client;

// The following structs leave fields uninitialized until they are needed: `begin`, `post` and `wait` set them.

/// A group's turn as poller of one ring. A turn is a sequence of rounds; each round reads responses from the cursor on,
/// delivers them, and moves the cursor.
struct poller_turn {
    static constexpr std::uint32_t no_slot = 0xffffffffu;

    // The parameters of the turn.
    std::uint32_t ring;
    std::uint32_t rounds;    ///< the most rounds of the turn
    std::uint32_t own_slot;  ///< slot of the group's own request; `no_slot`: it waits for none
    std::uint32_t own_tag;
    bool eager;          ///< the lease is probably free; try to take it without reading its word first
    std::uint64_t lost;  ///< the word of a stopped poller whose lease may be taken over; 0: none
    // The results of the turn.
    std::uint64_t mine;    ///< the group's own response; 0: not found yet
    std::uint64_t poller;  ///< the poller word as last seen
    // The state between the phases of a round.
    std::uint64_t lease;  ///< the poller word that this group wrote when it took the lease; 0: it has no lease
    std::uint64_t cursor;
    std::uint64_t posted;
    bool served;          ///< the group's own response was in its slot when this round began
    std::uint32_t deep;   ///< words that each lane reads in this round
    std::uint32_t ready;  ///< responses found in this round, without a gap
    std::uint32_t round;
    std::uint32_t for_others;
    bool last;
    std::uint32_t at;                    ///< index in `words` of the response that this lane delivers
    std::uint32_t others;                ///< a bit for each response from `at` on without a waiter
    std::uint64_t handed;                ///< the response that goes to the completion
    std::uint64_t asked;                 ///< the slot's word, which says what the request asked for
    mailbox::grant granted;              ///< what the response grants to that request
    std::uint64_t words[poller::depth];  ///< this lane's responses; 0: nothing to deliver

    /// Begins a turn of up to `n` rounds, without an own request.
    ORCHARD_FN void begin(std::uint32_t n) {
        rounds = n;
        own_slot = no_slot;
        own_tag = 0;
        eager = false;
        lost = 0;
        mine = 0;
    }
};

/// A request that is to be posted.
struct posting {
    mailbox::request request;
    std::uint64_t packed;  ///< the request's word, without slot and tags
    bool unattended;
    /// Numbers the attempts to find a free slot. It is not reset between requests, as the slots of earlier requests may
    /// still be in use.
    std::uint32_t attempt = 0;
    std::uint64_t progress;     ///< responses delivered, as last seen while all slots were in use
    std::uint64_t progress_at;  ///< time when `progress` last changed; 0: not read yet
    ticket made;

    ORCHARD_FN void begin(const mailbox::request& what, bool without_waiter) {
        request = what;
        packed = what.pack(0);
        unattended = without_waiter;
        progress_at = 0;
    }
};

/// A group's wait for its response.
struct watch {
    std::uint64_t poller;       ///< time when it last changed
    std::uint64_t changed_at;   ///< time when its cursor last moved
    std::uint64_t progress_at;  ///< when its cursor last moved
    std::uint64_t next_check;
    std::uint64_t heartbeat_before;  ///< the heartbeat at half of the deadline
    std::uint64_t heartbeat_at;
    std::uint64_t delivered;  ///< the slot's word, once it holds the response
    std::uint32_t pause_ns;
    bool looked;        ///< the lease was checked at least once
    bool just_checked;  ///< the lease was checked, and the slot was not polled since
    bool half_time;
    failure_reason failure;

    ORCHARD_FN void begin() {
        looked = false;
        half_time = false;
        delivered = 0;
        heartbeat_before = 0;
        heartbeat_at = 0;
        failure = failure_reason::none;
    }
};

/// For a group that acts as poller repeatedly: each ring's poller word as last seen, and since when it has not changed.
struct rounds_seen {
    std::uint64_t poller[mailbox::max_pollers];
    std::uint64_t since[mailbox::max_pollers];
};

/// The state of a group's call to the host. Each phase gets a reference to all of it, which takes one register.
struct rpc_context {
    const mailbox_client* box;
    simt::lane_mask mask;
    poller_turn turn;
    posting post;
    watch wait;
    rounds_seen seen;

    ORCHARD_FN rpc_context(const mailbox_client* b, simt::lane_mask m) : box{b}, mask{m} {}
};

/// The same with the completion for responses without a waiter.
template <class Completion>
struct rpc_context_with : rpc_context {
    Completion completion;
    ORCHARD_FN rpc_context_with(const mailbox_client* b, simt::lane_mask m, Completion s)
        : rpc_context{b, m}, completion{s} {}
};

/// The device's view of one mailbox; passed by value.
class mailbox_client {
public:
    mailbox::host_part host;
    mailbox::device_part* device = nullptr;
    mailbox::shape shape;
    std::uint64_t timeout_ns = 10'000'000'000;
    std::uint64_t lost_after_ns = poller::lost_after_ns;
    /// The time for which device threads rely on a noted rejection before they check it again.
    static constexpr std::uint64_t look_again_after_ns = 20'000;

    /// Claims a slot and posts `request`. Returns its ticket; `ticket::failure` says why nothing was posted. If
    /// `unattended`, no group waits for the response: its poller calls `Completion` with the grant. Waits for a free
    /// slot until the deadline, or, if `unattended`, not at all.
    ///
    /// Errors: closing, service_not_responding or commit_blocked, at once, if this is known; service_not_responding if
    /// no slot became free (unattended: if none was free). Cost: three atomics on device memory, one without a used
    /// result, and one word written to host memory.
    template <class Completion>
    ORCHARD_FN ticket post(simt::lane_mask mask, mailbox::request request, bool unattended,
                           Completion completion) const;

    /// Waits for the response to `r`, and acts as poller if its ring has none.
    ///
    /// Errors: commit_blocked or service_not_responding at the deadline. The slot is then unattended, and a late grant
    /// goes to `completion`. Cost: polls one word of device memory; at most one group for each ring reads host memory
    /// at a time.
    template <class Completion>
    ORCHARD_FN outcome wait(simt::lane_mask mask, ticket r, Completion completion) const;

    /// Delivers the responses that have arrived, in each ring without a poller. It never waits. For a group that has
    /// posted unattended requests.
    template <class Completion>
    ORCHARD_FN void poller_round(simt::lane_mask mask, Completion completion) const {
        rpc_context_with<Completion> e{this, mask, completion};
        go_round(e);
    }

    /// Returns the reason why a request for `leaves` fails at once: closing, service_not_responding or commit_blocked;
    /// none if no reason is known. One lane calls it alone. Cost: one load; while a reason is noted, two more loads and
    /// a clock read, and one word of host memory if no lane has checked the note for `look_again_after_ns`.
    [[nodiscard]] ORCHARD_FN failure_reason known_rejection(std::uint64_t leaves) const;

    /// Returns the number of requests whose response has not been delivered; a snapshot.
    [[nodiscard]] ORCHARD_FN std::uint64_t in_flight() const {
        const std::uint64_t done = delivered();
        return poller_word::flying(device->ticket.word.load<simt::order::relaxed>(), done);
    }
    /// Returns the number of responses delivered so far, modulo 2^40.
    [[nodiscard]] ORCHARD_FN std::uint64_t delivered() const {
        std::uint64_t done = 0;
        ORCHARD_NO_UNROLL
        for (std::uint32_t ring = 0; ring < shape.pollers; ++ring) {
            done += poller_word::cursor(device->poller[ring].word.load<simt::order::relaxed>());
        }
        return done;
    }

    // The same for callers that keep the rpc context themselves, and use it for several requests and several mailboxes.

    /// Posts `e.post.request`; the ticket is `e.post.made`.
    template <class Completion>
    ORCHARD_FN static void post(rpc_context_with<Completion>& e);
    /// Waits for the response to `e.post.made`.
    template <class Completion>
    ORCHARD_FN static outcome wait(rpc_context_with<Completion>& e);
    /// Acts as poller of each ring for one round, if the ring has no poller.
    template <class Completion>
    ORCHARD_FN static void go_round(rpc_context_with<Completion>& e);
    /// The same for a group that calls it repeatedly (`e.seen`). It also takes over the lease of a stopped poller,
    /// since such a ring may have no waiter that would do so.
    template <class Completion>
    ORCHARD_FN static void go_round_again(rpc_context_with<Completion>& e);

    /// Acknowledges the response to `r`: frees its slot. One lane calls it alone.
    ORCHARD_FN void finish(ticket r) const {
        if (!simt::mutation::is(simt::mutation::fault::acknowledgement)) {
            device->slots()[r.slot].store<simt::order::relaxed>(slot_word::idle((r.tag + 1) & shape.tag_mask()));
        }
    }
};

}  // namespace orchard::device
