// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The device's side of the mailbox: posting, waiting, and being courier. Layout and states: `uvm/mailbox.hpp`.
///
/// Every function is called by all lanes of a converged group (`mask`); its lowest lane acts for all.
/// A `Sink` is called as `sink(answer_status, segment_run)` for each answer that nobody waits for; by any lanes, alone
/// or together; it must not wait and not use collectives.

#include <cstdint>

#include "device/simt/atomic.cuh"
#include "device/simt/lane.cuh"
#include "uvm/failure_reason.hpp"
#include "uvm/mailbox.hpp"

namespace orchard::device {

using mailbox::answer;
using mailbox::answer_status;
using mailbox::courier_word;
using mailbox::slot_word;

namespace courier {
/// Words that each lane of a courier reads at once while there is traffic: 256 answers a full warp.
inline constexpr int depth = 8;
/// Rounds that a courier stays for others once its own answer is there.
inline constexpr int rounds_for_others = 8;
/// Rounds after which a courier lets go, so that its word changes even while nothing arrives.
inline constexpr int longest_tenure = 64;
/// A courier word that has not changed for this long belongs to a courier that stopped.
inline constexpr std::uint64_t lost_after_ns = 5'000'000;
}  // namespace courier

/// What a group knows of its post.
struct receipt {
    std::uint32_t slot = 0;
    std::uint32_t tag = 0;
    std::uint32_t count = 0;                        ///< segments asked for
    failure_reason failure = failure_reason::none;  ///< why nothing was posted
};

/// How a wait ended: `failure` is none exactly when `result` is an answer.
struct outcome {
    answer result;
    failure_reason failure = failure_reason::none;
};

/// The client's view of one mailbox; passed by value.
class mailbox_client {
public:
    mailbox::host_part host;
    mailbox::device_part* device = nullptr;
    mailbox::shape shape;
    std::uint64_t timeout_ns = 10'000'000'000;
    std::uint64_t lost_after_ns = courier::lost_after_ns;

    /// Claims a slot and posts. With `unattended` nobody waits: the courier that meets the answer puts the grant
    /// where `Sink` puts it. Waits for a free slot until the deadline, or with `unattended` not at all.
    ///
    /// Errors: closing; service_not_answering where no slot came free (unattended: where none was free at once).
    /// Cost: three atomics of device memory, one of which nobody waits for, and one word written to host memory.
    template <class Sink>
    ORCHARD_FN receipt post(simt::lane_mask mask, mailbox::post request, bool unattended, Sink&& sink) const;

    /// Waits for the answer to `r`, as courier where nobody else is.
    ///
    /// Errors: commit_blocked or service_not_answering at the deadline (the slot is then unattended; a late grant
    /// goes to `sink`). Cost: polls one word of device memory; at most one group at a time reads host memory.
    template <class Sink>
    ORCHARD_FN outcome wait(simt::lane_mask mask, receipt r, Sink&& sink) const;

    /// Delivers what answers there are, if nobody else does. Never waits. For who has posted unattended.
    template <class Sink>
    ORCHARD_FN void courier_round(simt::lane_mask mask, Sink&& sink) const {
        for (std::uint32_t ring = 0; ring < shape.couriers; ++ring) {
            serve(mask, ring, no_receipt, 1, false, sink);
        }
    }

    /// What one that makes such rounds again and again has seen of each ring's courier word, and since when.
    struct rounds_seen {
        std::uint64_t courier[mailbox::max_couriers]{};
        std::uint64_t since[mailbox::max_couriers]{};
    };
    /// As above; also takes the office of a courier that has stopped, which a waiter of its ring would do, if there
    /// were one.
    template <class Sink>
    ORCHARD_FN void courier_round(simt::lane_mask mask, Sink&& sink, rounds_seen& seen) const;

    /// Posts written that no courier has seen the answer of; a snapshot.
    [[nodiscard]] ORCHARD_FN std::uint64_t in_flight() const {
        const std::uint64_t done = delivered();
        return courier_word::flying(device->ticket.word.load<simt::order::relaxed>(), done);
    }

private:
    static constexpr receipt no_receipt{0xffffffffu, 0, 0, failure_reason::none};

    /// What `serve` found.
    struct served {
        answer mine;
        bool have_mine = false;
        std::uint64_t courier = 0;  ///< the courier word as last seen
    };
    /// Words of the answer ring that one lane of a courier has read.
    struct batch {
        std::uint64_t words[courier::depth];
    };
    /// What a waiting group has seen of the mailbox's progress.
    struct watch {
        std::uint64_t courier = 0;      ///< the courier word
        std::uint64_t changed_at = 0;   ///< when it last changed
        std::uint64_t progress_at = 0;  ///< when its cursor last moved
        std::uint64_t next_look = 0;
        std::uint32_t pause_ns = 0;
    };

    /// Answers delivered so far, modulo 2^40.
    [[nodiscard]] ORCHARD_FN std::uint64_t delivered() const {
        std::uint64_t done = 0;
        for (std::uint32_t ring = 0; ring < shape.couriers; ++ring) {
            done += courier_word::cursor(device->courier[ring].word.load<simt::order::relaxed>());
        }
        return done;
    }
    /// Times that `post` tries to find a free slot before it waits for one.
    static constexpr std::uint32_t quick_attempts = 9;
    template <class Sink>
    ORCHARD_NOINLINE receipt post_when_free(simt::lane_mask mask, mailbox::post request, Sink sink) const;
    ORCHARD_FN bool try_post(simt::lane_mask mask, mailbox::post request, std::uint32_t attempt, bool unattended,
                             receipt& r) const;
    ORCHARD_FN bool claim(receipt& r, std::uint32_t attempt, bool unattended) const;
    ORCHARD_FN void write_post(receipt r, mailbox::post request) const;
    ORCHARD_FN std::uint64_t take_office(simt::lane_mask mask, std::uint32_t ring, bool eager, std::uint64_t lost,
                                         std::uint64_t* seen) const;
    template <class Sink>
    ORCHARD_NOINLINE served serve(simt::lane_mask mask, std::uint32_t ring, receipt own, int rounds, bool eager,
                                  Sink sink, std::uint64_t lost = 0) const;
    ORCHARD_FN void read_batch(simt::lane_mask mask, std::uint32_t ring, std::uint64_t cursor, int deep,
                               batch& b) const;
    ORCHARD_FN int count_ready(simt::lane_mask mask, std::uint64_t cursor, int deep, const batch& b) const;
    ORCHARD_FN bool take_own(simt::lane_mask mask, receipt own, int ready, batch& b, served& out) const;
    template <class Sink>
    ORCHARD_FN void deliver_batch(simt::lane_mask mask, int ready, const batch& b, Sink&& sink) const;
    template <class Sink>
    ORCHARD_FN void deliver(const answer& a, Sink&& sink) const;
    ORCHARD_FN void plan_next_look(simt::lane_mask mask, watch& w, std::uint64_t now, std::uint32_t slot) const;
    ORCHARD_FN outcome give_up(simt::lane_mask mask, receipt r, std::uint64_t beat_before) const;
    ORCHARD_FN void finish(receipt r) const {
        if (!simt::mutation::is(simt::mutation::fault::acknowledgement)) {
            device->slots()[r.slot].store<simt::order::relaxed>(slot_word::idle((r.tag + 1) & shape.tag_mask()));
        }
    }
};

}  // namespace orchard::device

#include "device/mailbox_client_impl.cuh"
#include "device/mailbox_post_impl.cuh"
