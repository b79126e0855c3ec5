// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The device's side of the mailbox: posting a request, waiting for its response, and being poller.
/// uvm/geometry/mailbox.hpp defines the layout of all words and the states of a slot; docs/protocol.md describes the
/// protocol.
///
/// A group's call, with the files of its phases:
///
///     post.cuh    claim a slot -> take a ticket -> write the request's word into host memory
///                   all slots in use: act as poller, and try again until the deadline
///     wait.cuh    look: is the ring's lease free? Then be poller for a turn (poller.cuh)
///                 poll: read the slot in device memory, pause; look again at intervals
///                   response there: take it, free the slot
///                   deadline passed: leave the slot to the poller that delivers later; the reason is the result
///
/// All lanes of a converged group (`mask`) call each function, unless its comment says otherwise; the lowest lane acts
/// for all. A `Completion` is called as `completion(response_status, mailbox::grant&)` for each response without a
/// waiter. Any lanes call it, alone or together; it must not wait and must not use collectives.
///
/// All of this is reached from `malloc`. A kernel needs as many registers as its deepest chain of calls, frame by
/// frame. Therefore state that outlives one phase lies in the lane's local memory (`rpc_context`), each phase is a
/// separate function that gets a reference to this state, and the chain is short. With all phases inlined, a lone round
/// trip takes 4.35 us instead of 5.7 on an H200, and `malloc` 56 registers instead of 48: 1,000,000 blocks of 64 B then
/// take 19.8 us instead of 17.7, since fewer warps run at once. Inlining only the five phases that cost no register
/// changed nothing.

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

/// The part of a sent request that its group keeps: the slot in which the response arrives, and the tag that tells this
/// use of the slot from earlier ones. `count` and `leaves` are kept because a response to an exact request does not
/// repeat them (`mailbox::granted_by`). All lanes of the group have the same values, except `takeover`.
struct ticket {
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;
    std::uint32_t count = 0;                        ///< segments wanted
    std::uint32_t leaves = 0;                       ///< leaves of the tail wanted
    failure_reason failure = failure_reason::none;  ///< why nothing was posted
    std::uint32_t takeover = 0;                     ///< of the slot's word (`slot_word`); set in the leader alone
};

/// The end of a wait: `failure` is `none` if and only if `result` is a response. A response may still be a rejection;
/// its status says so.
struct outcome {
    response result;
    failure_reason failure = failure_reason::none;
    leaf_index leaf{0};  ///< where the granted tail begins
};

class mailbox_client;

// The following structs leave fields uninitialized until they are needed: `begin`, `post` and `wait` set them.

/// A group's turn as poller of one ring. A turn is a sequence of rounds; each round reads responses from the cursor on,
/// delivers them, and moves the cursor.
///
/// Each lane has its own copy. In a round, the lane of rank r in a group of W lanes holds the responses r, W + r, 2 W +
/// r, ... after the cursor. Neighbouring lanes thus read neighbouring words, and each read is one access to consecutive
/// host memory:
///
///     W = 4, deep = 2, cursor = 100     rank      0    1    2    3
///                                       words[0]  100  101  102  103
///                                       words[1]  104  105  106  107
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
    std::uint64_t lease;       ///< the poller word as this group wrote it last; 0: it has no lease
    std::uint64_t sure_until;  ///< the cycle until which the group has the lease for certain; set in the leader alone
    std::uint32_t takeover;  ///< while it delivers what a stopped poller may have read, the take-over's number; else 0
    std::uint64_t cursor;    ///< position in the ring of the first response not delivered yet
    std::uint64_t posted;    ///< requests of this ring that were posted when this round began; the leader's copy counts
    bool served;             ///< the group's own response was in its slot when this round began
    std::uint32_t deep;      ///< words that each lane reads in this round
    std::uint32_t ready;     ///< responses found in this round, without a gap
    std::uint32_t round;     ///< number of rounds so far
    std::uint32_t for_others;            ///< number of rounds since the group's own response was found
    bool last;                           ///< the lease is given up at the end of this round
    std::uint32_t at;                    ///< index in `words` of the response that this lane delivers
    std::uint32_t others;                ///< a bit for each response from `at` on that is not delivered yet
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

/// A request that is to be posted, and the state of its search for a free slot. Only the leader searches, so that only
/// its copies of `attempt`, `made.slot` and `made.tag` advance; `try_post` then copies the result to all lanes.
struct posting {
    mailbox::request request;
    std::uint64_t packed;  ///< the request's word, without slot and tags
    bool unattended;       ///< no group waits for the response; its poller passes the grant to the completion
    /// Numbers the attempts to find a free slot. It is not reset between requests, as the slots of earlier requests may
    /// still be in use.
    std::uint32_t attempt = 0;
    std::uint64_t progress;     ///< responses delivered, as last seen while all slots were in use
    std::uint64_t progress_at;  ///< time when `progress` last changed; 0: not read yet
    ticket made;                ///< the result: the request's ticket, or the reason why there is none

    ORCHARD_FN void begin(const mailbox::request& what, bool without_waiter) {
        request = what;
        packed = what.pack(0);
        unattended = without_waiter;
        progress_at = 0;
    }
};

/// A group's wait for its response. It keeps three times. `changed_at` decides when the ring's poller is taken for
/// stopped. `progress_at` begins the deadline: any response delivered in this ring is progress, so that a long queue
/// before the group's own response is no failure. `next_check` is when the group looks at the lease again.
struct watch {
    std::uint64_t poller;            ///< the ring's poller word as last seen
    std::uint64_t changed_at;        ///< time when that word last changed: cursor, epoch or lease
    std::uint64_t progress_at;       ///< time when its cursor last moved
    std::uint64_t next_check;        ///< time of the next look at the lease
    std::uint64_t heartbeat_before;  ///< the heartbeat at half of the deadline
    std::uint64_t heartbeat_at;      ///< time when that was read
    std::uint64_t delivered;         ///< the slot's word, once it holds the response
    std::uint32_t pause_ns;          ///< pause between two polls of the slot
    bool looked;                     ///< the lease was checked at least once
    bool just_checked;               ///< the lease was checked, and the slot was not polled since
    bool half_time;                  ///< half of the deadline has passed without progress, and the heartbeat was read
    failure_reason failure;          ///< why the wait ended without a response; none while it lasts

    ORCHARD_FN void begin() {
        looked = false;
        half_time = false;
        delivered = 0;
        heartbeat_before = 0;
        heartbeat_at = 0;
        failure = failure_reason::none;
    }
};

/// For a group that acts as poller repeatedly: each ring's poller word as last seen, and since when it has not changed
/// (0: not seen yet). Without this, a group that only delivers could not tell a stopped poller from one at work.
struct rounds_seen {
    std::uint64_t poller[mailbox::max_pollers];
    std::uint64_t since[mailbox::max_pollers];
};

/// The state of a group's call to the host. Each phase gets a reference to all of it, which takes one register. The
/// parts are used one after the other, and `turn` by two of them: as poller while the group searches a slot, and while
/// it waits. `wait` and `seen` share their memory: `seen` is needed until a slot is found, `wait` only after that.
struct rpc_context {
    const mailbox_client* box;
    simt::lane_mask mask;
    poller_turn turn;
    posting post;
    union {
        watch wait;        ///< while the group waits for a response
        rounds_seen seen;  ///< while it searches a slot, or delivers responses repeatedly
    };

    ORCHARD_FN rpc_context(const mailbox_client* b, simt::lane_mask m) : box{b}, mask{m} {}
};

/// The same with the completion for responses without a waiter.
template <class Completion>
struct rpc_context_with : rpc_context {
    Completion completion;
    ORCHARD_FN rpc_context_with(const mailbox_client* b, simt::lane_mask m, Completion s)
        : rpc_context{b, m}, completion{s} {}
};

/// The device's view of one mailbox; passed by value. Its functions change only what its pointers lead to, so that all
/// kernels share one constant copy in the `heap_view`.
class mailbox_client {
public:
    // The words that both sides share, the words in device memory, and the numbers of slots and pollers.
    mailbox::host_part host;
    mailbox::device_part* device = nullptr;
    mailbox::shape shape;
    /// The deadline (`request_timeout`): how long a wait lasts without progress that the waiting group can observe.
    std::uint64_t timeout_ns = 10'000'000'000;
    /// The time after which another group takes the lease of a poller whose word has not changed.
    std::uint64_t lost_after_ns = poller::lost_after_ns;
    /// The time for which device threads rely on a noted rejection before they check it again.
    static constexpr std::uint64_t look_again_after_ns = 20'000;
    /// Returns how long a group waits for another group that itself waits for the host. Without progress, that group
    /// gives up after at most 1.25 times `timeout_ns` (`waiting::poll`). After 1.5 times it is taken for stopped.
    [[nodiscard]] ORCHARD_INLINE std::uint64_t patience_ns() const { return timeout_ns + timeout_ns / 2; }

    /// Claims a slot and posts `request`. Returns its ticket; `ticket::failure` says why nothing was posted. If
    /// `unattended`, no group waits for the response: its poller calls `Completion` with the grant. Waits for a free
    /// slot until the deadline, or, if `unattended`, not at all.
    ///
    /// Errors: closing, service_not_responding or commit_blocked, at once, if this is known; service_not_responding if
    /// no slot became free (unattended: if none was free). Cost: three atomics on device memory, one without a used
    /// result, a load of the noted reason (`known_rejection`), and one word written to host memory.
    template <class Completion>
    ORCHARD_FN ticket post(simt::lane_mask mask, mailbox::request request, bool unattended,
                           Completion completion) const;

    /// Waits for the response to `r`, and acts as poller if its ring has none. Each posted ticket needs exactly one
    /// wait, unless its request is unattended: the wait frees the slot, or leaves it to a poller.
    ///
    /// Errors: commit_blocked or service_not_responding at the deadline. The slot is then unattended, and a late grant
    /// goes to `completion`. Cost: polls one word of device memory; at most one group for each ring reads host memory
    /// at a time.
    ///
    /// One lane acquires what the service released with the response. If other lanes use the granted memory or its
    /// metadata, the caller makes a barrier (`sync`) first.
    template <class Completion>
    ORCHARD_FN outcome wait(simt::lane_mask mask, ticket r, Completion completion) const;

    /// Delivers the responses that have arrived, in each ring without a poller. It never waits. For a group that has
    /// posted unattended requests: if no group waits in a ring, its responses stay there, and their slots in use, until
    /// some group calls this.
    template <class Completion>
    ORCHARD_FN void poller_round(simt::lane_mask mask, Completion completion) const {
        rpc_context_with<Completion> e{this, mask, completion};
        go_round(e);
    }

    /// Returns the reason why a request for `leaves` fails at once: closing, service_not_responding or commit_blocked;
    /// none if no reason is known. One lane calls it alone. Cost: one load; while a reason is noted, two more loads and
    /// a clock read, and one word of host memory if no lane has checked the note for `look_again_after_ns`.
    [[nodiscard]] ORCHARD_FN failure_reason known_rejection(std::uint64_t leaves) const;

    /// Returns the number of requests whose response has not been delivered; a snapshot, as its words are read one
    /// after the other while other groups change them. Any lane may call it alone. Cost: one load, and one for each
    /// ring.
    [[nodiscard]] ORCHARD_FN std::uint64_t in_flight() const {
        const std::uint64_t done = delivered();
        return poller_word::flying(device->ticket.word.load<simt::order::relaxed>(), done);
    }
    /// Returns the number of responses delivered so far, modulo 2^40: the sum of the rings' cursors. Compare it with
    /// other counts by `poller_word::flying`, or for equality. Any lane may call it alone. Cost: one load for each
    /// ring.
    [[nodiscard]] ORCHARD_FN std::uint64_t delivered() const {
        std::uint64_t done = 0;
        ORCHARD_NO_UNROLL
        for (std::uint32_t ring = 0; ring < shape.pollers; ++ring) {
            done += poller_word::cursor(device->poller[ring].word.load<simt::order::relaxed>());
        }
        return done;
    }

    // The same for callers that keep the rpc context themselves, and use it for several requests.

    /// Posts `e.post.request`, which `e.post.begin` has set; the ticket is `e.post.made`. Overwrites `e.seen`, and
    /// `e.turn` if no slot is free.
    template <class Completion>
    ORCHARD_FN static void post(rpc_context_with<Completion>& e);
    /// Waits for the response to `e.post.made`. Overwrites `e.turn`, `e.wait` and `e.seen`.
    template <class Completion>
    ORCHARD_FN static outcome wait(rpc_context_with<Completion>& e);
    /// Acts as poller of each ring for one round, if the ring has no poller. Overwrites `e.turn`, so that a group calls
    /// it only between its own requests, or while it searches a slot.
    template <class Completion>
    ORCHARD_FN static void go_round(rpc_context_with<Completion>& e);
    /// The same for a group that calls it repeatedly (`e.seen`). It also takes over the lease of a stopped poller,
    /// since such a ring may have no waiter that would do so.
    template <class Completion>
    ORCHARD_FN static void go_round_again(rpc_context_with<Completion>& e);

    /// Acknowledges the response to `r`: frees its slot, whose `takeover` stays. The leader calls it alone. Cost: one
    /// store.
    ///
    /// A plain store suffices. The response has been taken, so that nothing is lost if the store overwrites a second
    /// delivery of it by another poller. `pending` stays set until the store, so that the `fetch_or` of a group that
    /// searches a slot changes nothing. The tag is raised, so that a delivery of the same response after the store does
    /// not match the slot's next use. Relaxed: the slot carries nothing but its own word.
    ORCHARD_FN void finish(ticket r) const {
        if (!simt::mutation::is(simt::mutation::fault::acknowledgement)) {
            device->slots()[r.slot].store<simt::order::relaxed>(
                slot_word::idle((r.tag + 1) & shape.tag_mask(), r.takeover));
        }
    }
};

}  // namespace orchard::device
