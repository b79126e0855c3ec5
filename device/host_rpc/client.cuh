// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The device's side of the mailbox: posting, waiting, and being poller. Layout and states: `uvm/geometry/mailbox.hpp`.
///
/// Every function is called by all lanes of a converged group (`mask`); its lowest lane acts for all.
/// A `Completion` is called as `completion(response_status, mailbox::grant)` for each answer that nobody waits for; by
/// any lanes, alone or together; it must not wait and not use collectives.
///
/// All of this is reached from `malloc`, and a kernel has as many registers as its deepest chain of calls takes, frame
/// by frame. So what lives longer than one phase lies in the lane's own memory (`rpc_context`), each phase is a
/// function of its own that is handed that memory, and the chain is short.

#include <cstdint>

#include "device/group/leader.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/mailbox.hpp"

namespace orchard::device {

using mailbox::poller_word;
using mailbox::response;
using mailbox::response_status;
using mailbox::slot_word;

namespace poller {
/// Words that each lane of a poller reads at once while there is traffic: 128 answers a full warp.
inline constexpr std::uint32_t depth = 4;
/// Answers that a lane hands over side by side: as many as registers allow.
inline constexpr std::uint32_t at_once = 2;
/// Rounds that a poller stays for others once its own answer is there.
inline constexpr std::uint32_t rounds_for_others = 8;
/// Rounds after which a poller lets go, so that its word changes even while nothing arrives.
inline constexpr std::uint32_t longest_turn = 64;
/// A poller word that has not changed for this long belongs to a poller that stopped.
inline constexpr std::uint64_t lost_after_ns = 5'000'000;
}  // namespace poller

/// What a group knows of its post.
struct ticket {
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;
    std::uint32_t count = 0;                        ///< segments asked for
    std::uint32_t leaves = 0;                       ///< and leaves of a tail
    failure_reason failure = failure_reason::none;  ///< why nothing was posted
};

/// How a wait ended: `failure` is none exactly when `result` is an answer.
struct outcome {
    response result;
    failure_reason failure = failure_reason::none;
    leaf_index leaf{0};  ///< where the tail begins that was granted
};

class mailbox_client;

// Of the following nothing is set before it is needed: `begin`, `post` and `wait` do.

/// A group's turn as poller of one ring.
struct poller_turn {
    static constexpr std::uint32_t no_slot = 0xffffffffu;

    // What the turn is to be.
    std::uint32_t ring;
    std::uint32_t rounds;    ///< at most
    std::uint32_t own_slot;  ///< of the group's own post
    std::uint32_t own_tag;
    bool eager;          ///< the lease is probably free, and asking for it costs no more than looking
    std::uint64_t lost;  ///< the word of a poller that has stopped and may be succeeded; 0: none
    // What came of it.
    std::uint64_t mine;    ///< the group's own answer; 0: not yet
    std::uint64_t poller;  ///< the poller word as last seen
    // Between the phases of a round.
    std::uint64_t lease;  ///< the poller word while it is this group's; 0: it is not
    std::uint64_t cursor;
    std::uint64_t posted;
    bool served;          ///< the group's own answer was in its slot when this round began
    std::uint32_t deep;   ///< words that each lane reads in this round
    std::uint32_t ready;  ///< answers that this round has found
    std::uint32_t round;
    std::uint32_t for_others;
    bool last;
    std::uint32_t at;                    ///< which of its words this lane hands over
    std::uint32_t others;                ///< of it and those behind it, which found no waiter: a bit each
    std::uint64_t handed;                ///< the one that is for the sink
    std::uint64_t asked;                 ///< the slot's word: what its post asked for
    mailbox::grant granted;              ///< to it
    std::uint64_t words[poller::depth];  ///< of this lane; 0 where there is nothing to be delivered

    /// A turn of up to `n` rounds is to begin, for others so far.
    ORCHARD_FN void begin(std::uint32_t n) {
        rounds = n;
        own_slot = no_slot;
        own_tag = 0;
        eager = false;
        lost = 0;
        mine = 0;
    }
};

/// A post that is to be made.
struct posting {
    mailbox::request request;
    std::uint64_t packed;  ///< the same, but for slot and tags
    bool unattended;
    /// To find a free slot: goes on from post to post, as the slots of former ones may not be free yet.
    std::uint32_t attempt = 0;
    std::uint64_t progress;     ///< answers delivered, as last seen while all slots were in use
    std::uint64_t progress_at;  ///< when that changed; 0: not looked at yet
    ticket made;

    ORCHARD_FN void begin(const mailbox::request& what, bool nobody_waits) {
        request = what;
        packed = what.pack(0);
        unattended = nobody_waits;
        progress_at = 0;
    }
};

/// A group's wait for the answer to its post.
struct watch {
    std::uint64_t poller;       ///< the poller word, as last seen
    std::uint64_t changed_at;   ///< when it last changed
    std::uint64_t progress_at;  ///< when its cursor last moved
    std::uint64_t next_check;
    std::uint64_t heartbeat_before;  ///< at half time
    std::uint64_t heartbeat_at;
    std::uint64_t delivered;  ///< the slot's word, once it is the answer
    std::uint32_t pause_ns;
    bool looked;        ///< at all
    bool just_checked;  ///< and has not polled since
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

/// What one that makes rounds again and again has seen of each ring's poller word, and since when.
struct rounds_seen {
    std::uint64_t poller[mailbox::max_pollers];
    std::uint64_t since[mailbox::max_pollers];
};

/// All that a group needs while it is about something at a mailbox. Every phase is handed it whole: one address.
struct rpc_context {
    const mailbox_client* box;
    simt::lane_mask mask;
    poller_turn turn;
    posting post;
    watch wait;
    rounds_seen seen;

    ORCHARD_FN rpc_context(const mailbox_client* b, simt::lane_mask m) : box{b}, mask{m} {}
};

/// The same, with where to put what nobody waits for.
template <class Completion>
struct rpc_context_with : rpc_context {
    Completion completion;
    ORCHARD_FN rpc_context_with(const mailbox_client* b, simt::lane_mask m, Completion s)
        : rpc_context{b, m}, completion{s} {}
};

/// The client's view of one mailbox; passed by value.
class mailbox_client {
public:
    mailbox::host_part host;
    mailbox::device_part* device = nullptr;
    mailbox::shape shape;
    std::uint64_t timeout_ns = 10'000'000'000;
    std::uint64_t lost_after_ns = poller::lost_after_ns;
    /// How long device threads rely on a reason for which requests fail at once.
    static constexpr std::uint64_t look_again_after_ns = 20'000;

    /// Claims a slot and posts. With `unattended` nobody waits: the poller that meets the answer puts the grant
    /// where `Completion` puts it. Waits for a free slot until the deadline, or with `unattended` not at all.
    ///
    /// Errors: closing, service_not_answering or commit_blocked, at once, where that is known; service_not_answering
    /// where no slot came free (unattended: where none was free at once).
    /// Cost: three atomics of device memory, one of which nobody waits for, and one word written to host memory.
    template <class Completion>
    ORCHARD_FN ticket post(simt::lane_mask mask, mailbox::request request, bool unattended,
                           Completion completion) const;

    /// Waits for the answer to `r`, as poller where nobody else is.
    ///
    /// Errors: commit_blocked or service_not_answering at the deadline (the slot is then unattended; a late grant
    /// goes to `completion`). Cost: polls one word of device memory; at most one group at a time reads host memory.
    template <class Completion>
    ORCHARD_FN outcome wait(simt::lane_mask mask, ticket r, Completion completion) const;

    /// Delivers the answers that are there, if no other group does. Never waits. For a group that has posted
    /// unattended.
    template <class Completion>
    ORCHARD_FN void poller_round(simt::lane_mask mask, Completion completion) const {
        rpc_context_with<Completion> e{this, mask, completion};
        go_round(e);
    }

    /// Returns why a request for `leaves` fails at once: closing, service_not_answering or commit_blocked; none where
    /// no reason is known. Any lane, alone. Cost: a load; while a reason is noted two more and a reading of the clock,
    /// and a word of host memory where no lane has compared the note for `look_again_after_ns`.
    [[nodiscard]] ORCHARD_FN failure_reason known_rejection(std::uint64_t leaves) const;

    /// Posts written that no poller has seen the answer of; a snapshot.
    [[nodiscard]] ORCHARD_FN std::uint64_t in_flight() const {
        const std::uint64_t done = delivered();
        return poller_word::flying(device->ticket.word.load<simt::order::relaxed>(), done);
    }
    /// Answers delivered so far, modulo 2^40.
    [[nodiscard]] ORCHARD_FN std::uint64_t delivered() const {
        std::uint64_t done = 0;
        ORCHARD_NO_UNROLL
        for (std::uint32_t ring = 0; ring < shape.pollers; ++ring) {
            done += poller_word::cursor(device->poller[ring].word.load<simt::order::relaxed>());
        }
        return done;
    }

    // The same for callers that keep the rpc context themselves, to use it several times, at several mailboxes.

    /// Posts what `e.post` says; the ticket is in it.
    template <class Completion>
    ORCHARD_FN static void post(rpc_context_with<Completion>& e);
    /// Waits for the answer to `e.post.made`.
    template <class Completion>
    ORCHARD_FN static outcome wait(rpc_context_with<Completion>& e);
    /// One round as poller of each ring.
    template <class Completion>
    ORCHARD_FN static void go_round(rpc_context_with<Completion>& e);
    /// The same for a group that does so again and again (`e.seen`); also takes the lease of a poller that has
    /// stopped, which a waiter of its ring would do, if there were one.
    template <class Completion>
    ORCHARD_FN static void go_round_again(rpc_context_with<Completion>& e);

    /// Lets the slot of a post go that has its answer.
    ORCHARD_FN void finish(ticket r) const {
        if (!simt::mutation::is(simt::mutation::fault::acknowledgement)) {
            device->slots()[r.slot].store<simt::order::relaxed>(slot_word::idle((r.tag + 1) & shape.tag_mask()));
        }
    }
};

}  // namespace orchard::device
