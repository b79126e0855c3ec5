// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The device's side of the mailbox: posting, waiting, and being courier. Layout and states: `uvm/geometry/mailbox.hpp`.
///
/// Every function is called by all lanes of a converged group (`mask`); its lowest lane acts for all.
/// A `Sink` is called as `sink(answer_status, mailbox::grant)` for each answer that nobody waits for; by any lanes,
/// alone or together; it must not wait and not use collectives.
///
/// All of this is reached from `malloc`, and a kernel has as many registers as its deepest chain of calls takes, frame
/// by frame. So what lives longer than one phase lies in the lane's own memory (`errand`), each phase is a function of
/// its own that is handed that memory, and the chain is short.

#include <cstdint>

#include "device/group/leader.cuh"
#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/geometry/failure_reason.hpp"
#include "uvm/geometry/mailbox.hpp"

namespace orchard::device {

using mailbox::answer;
using mailbox::answer_status;
using mailbox::courier_word;
using mailbox::slot_word;

namespace courier {
/// Words that each lane of a courier reads at once while there is traffic: 128 answers a full warp.
inline constexpr std::uint32_t depth = 4;
/// Answers that a lane hands over side by side: as many as registers allow.
inline constexpr std::uint32_t at_once = 2;
/// Rounds that a courier stays for others once its own answer is there.
inline constexpr std::uint32_t rounds_for_others = 8;
/// Rounds after which a courier lets go, so that its word changes even while nothing arrives.
inline constexpr std::uint32_t longest_tenure = 64;
/// A courier word that has not changed for this long belongs to a courier that stopped.
inline constexpr std::uint64_t lost_after_ns = 5'000'000;
}  // namespace courier

/// What a group knows of its post.
struct receipt {
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;
    std::uint32_t count = 0;                        ///< segments asked for
    std::uint32_t leaves = 0;                       ///< and leaves of a tail
    failure_reason failure = failure_reason::none;  ///< why nothing was posted
};

/// How a wait ended: `failure` is none exactly when `result` is an answer.
struct outcome {
    answer result;
    failure_reason failure = failure_reason::none;
    leaf_index leaf{0};  ///< where the tail begins that was granted
};

class mailbox_client;

// Of the following nothing is set before it is needed: `begin`, `post` and `wait` do.

/// A group's turn as courier of one ring.
struct tenure {
    static constexpr std::uint32_t no_slot = 0xffffffffu;

    // What the turn is to be.
    std::uint32_t ring;
    std::uint32_t rounds;    ///< at most
    std::uint32_t own_slot;  ///< of the group's own post
    std::uint32_t own_tag;
    bool eager;          ///< the office is probably free, and asking for it costs no more than looking
    std::uint64_t lost;  ///< the word of a courier that has stopped and may be succeeded; 0: none
    // What came of it.
    std::uint64_t mine;     ///< the group's own answer; 0: not yet
    std::uint64_t courier;  ///< the courier word as last seen
    // Between the phases of a round.
    std::uint64_t office;  ///< the courier word while it is this group's; 0: it is not
    std::uint64_t cursor;
    std::uint64_t posted;
    bool served;          ///< the group's own answer was in its slot when this round began
    std::uint32_t deep;   ///< words that each lane reads in this round
    std::uint32_t ready;  ///< answers that this round has found
    std::uint32_t round;
    std::uint32_t for_others;
    bool last;
    std::uint32_t at;                     ///< which of its words this lane hands over
    std::uint32_t others;                 ///< of it and those behind it, which found no waiter: a bit each
    std::uint64_t handed;                 ///< the one that is for the sink
    std::uint64_t asked;                  ///< the slot's word: what its post asked for
    mailbox::grant granted;               ///< to it
    std::uint64_t words[courier::depth];  ///< of this lane; 0 where there is nothing to be delivered

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
    mailbox::post request;
    std::uint64_t packed;  ///< the same, but for slot and tags
    bool unattended;
    /// To find a free slot: goes on from post to post, as the slots of former ones may not be free yet.
    std::uint32_t attempt = 0;
    std::uint64_t progress;     ///< answers delivered, as last seen while all slots were in use
    std::uint64_t progress_at;  ///< when that changed; 0: not looked at yet
    receipt made;

    ORCHARD_FN void begin(const mailbox::post& what, bool nobody_waits) {
        request = what;
        packed = what.pack(0);
        unattended = nobody_waits;
        progress_at = 0;
    }
};

/// A group's wait for the answer to its post.
struct watch {
    std::uint64_t courier;      ///< the courier word, as last seen
    std::uint64_t changed_at;   ///< when it last changed
    std::uint64_t progress_at;  ///< when its cursor last moved
    std::uint64_t next_look;
    std::uint64_t beat_before;  ///< at half time
    std::uint64_t beat_at;
    std::uint64_t delivered;  ///< the slot's word, once it is the answer
    std::uint32_t pause_ns;
    bool looked;       ///< at all
    bool just_looked;  ///< and has not polled since
    bool half_time;
    failure_reason failure;

    ORCHARD_FN void begin() {
        looked = false;
        half_time = false;
        delivered = 0;
        beat_before = 0;
        beat_at = 0;
        failure = failure_reason::none;
    }
};

/// What one that makes rounds again and again has seen of each ring's courier word, and since when.
struct rounds_seen {
    std::uint64_t courier[mailbox::max_couriers];
    std::uint64_t since[mailbox::max_couriers];
};

/// All that a group needs while it is about something at a mailbox. Every phase is handed it whole: one address.
struct errand {
    const mailbox_client* box;
    simt::lane_mask mask;
    tenure turn;
    posting post;
    watch wait;
    rounds_seen seen;

    ORCHARD_FN errand(const mailbox_client* b, simt::lane_mask m) : box{b}, mask{m} {}
};

/// The same, with where to put what nobody waits for.
template <class Sink>
struct errand_with : errand {
    Sink sink;
    ORCHARD_FN errand_with(const mailbox_client* b, simt::lane_mask m, Sink s) : errand{b, m}, sink{s} {}
};

/// The client's view of one mailbox; passed by value.
class mailbox_client {
public:
    mailbox::host_part host;
    mailbox::device_part* device = nullptr;
    mailbox::shape shape;
    std::uint64_t timeout_ns = 10'000'000'000;
    std::uint64_t lost_after_ns = courier::lost_after_ns;
    /// How long device threads rely on a reason for which requests fail at once.
    static constexpr std::uint64_t look_again_after_ns = 20'000;

    /// Claims a slot and posts. With `unattended` nobody waits: the courier that meets the answer puts the grant
    /// where `Sink` puts it. Waits for a free slot until the deadline, or with `unattended` not at all.
    ///
    /// Errors: closing, service_not_answering or commit_blocked, at once, where that is known; service_not_answering
    /// where no slot came free (unattended: where none was free at once).
    /// Cost: three atomics of device memory, one of which nobody waits for, and one word written to host memory.
    template <class Sink>
    ORCHARD_FN receipt post(simt::lane_mask mask, mailbox::post request, bool unattended, Sink sink) const;

    /// Waits for the answer to `r`, as courier where nobody else is.
    ///
    /// Errors: commit_blocked or service_not_answering at the deadline (the slot is then unattended; a late grant
    /// goes to `sink`). Cost: polls one word of device memory; at most one group at a time reads host memory.
    template <class Sink>
    ORCHARD_FN outcome wait(simt::lane_mask mask, receipt r, Sink sink) const;

    /// Delivers the answers that are there, if no other group does. Never waits. For a group that has posted
    /// unattended.
    template <class Sink>
    ORCHARD_FN void courier_round(simt::lane_mask mask, Sink sink) const {
        errand_with<Sink> e{this, mask, sink};
        go_round(e);
    }

    /// Returns why a request for `leaves` fails at once: closing, service_not_answering or commit_blocked; none where
    /// no reason is known. Any lane, alone. Cost: a load; while a reason is noted two more and a reading of the clock,
    /// and a word of host memory where no lane has compared the note for `look_again_after_ns`.
    [[nodiscard]] ORCHARD_FN failure_reason known_refusal(std::uint64_t leaves) const;

    /// Posts written that no courier has seen the answer of; a snapshot.
    [[nodiscard]] ORCHARD_FN std::uint64_t in_flight() const {
        const std::uint64_t done = delivered();
        return courier_word::flying(device->ticket.word.load<simt::order::relaxed>(), done);
    }
    /// Answers delivered so far, modulo 2^40.
    [[nodiscard]] ORCHARD_FN std::uint64_t delivered() const {
        std::uint64_t done = 0;
        ORCHARD_NO_UNROLL
        for (std::uint32_t ring = 0; ring < shape.couriers; ++ring) {
            done += courier_word::cursor(device->courier[ring].word.load<simt::order::relaxed>());
        }
        return done;
    }

    // The same for callers that keep the errand themselves, to use it several times, at several mailboxes.

    /// Posts what `e.post` says; the receipt is in it.
    template <class Sink>
    ORCHARD_FN static void post(errand_with<Sink>& e);
    /// Waits for the answer to `e.post.made`.
    template <class Sink>
    ORCHARD_FN static outcome wait(errand_with<Sink>& e);
    /// One round as courier of each ring.
    template <class Sink>
    ORCHARD_FN static void go_round(errand_with<Sink>& e);
    /// The same for a group that does so again and again (`e.seen`); also takes the office of a courier that has
    /// stopped, which a waiter of its ring would do, if there were one.
    template <class Sink>
    ORCHARD_FN static void go_round_again(errand_with<Sink>& e);

    /// Lets the slot of a post go that has its answer.
    ORCHARD_FN void finish(receipt r) const {
        if (!simt::mutation::is(simt::mutation::fault::acknowledgement)) {
            device->slots()[r.slot].store<simt::order::relaxed>(slot_word::idle((r.tag + 1) & shape.tag_mask()));
        }
    }
};

}  // namespace orchard::device

