// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What is done on shortage, and before a heap is looked at: retires empty slabs, hands
/// the magazine back, waits until nothing is under way.

#include "device/empty_slabs.cuh"
#include "device/host_frees.cuh"
#include "device/magazine_drain.cuh"

namespace orchard::device {

/// Where a refill is under way, posted, and its segments not at hand yet: shard + 1; else 0, and what has come is
/// counted. The newest value: a post releases nothing that a load would have to see. All lanes.
inline ORCHARD_NOINLINE std::uint64_t refill_under_way(dealings& d) {
    std::uint64_t shard = 0;
    if (is_leader(d.mask) && !simt::mutation::is(fault::late_grants)) {
        shard = d.h.state->refill_in_flight.word.fetch_add<order::acquire>(0);
    }
    return from_leader(d.mask, shard);
}

/// How many grants have come into the magazine that nobody waited for: the newest value, and acquires them. Any lane,
/// alone.
inline ORCHARD_NOINLINE std::uint64_t late_grants(const heap_view& h) {
    return simt::mutation::is(fault::late_grants) ? 0 : h.state->late_grants.word.fetch_add<order::acquire>(0);
}

/// Whether to stay for answers of `d.shard`: some rounds for what is under way, but until it is at hand for a refill,
/// which a courier that stands still may have in hand. All lanes.
inline ORCHARD_NOINLINE bool is_to_collect(dealings& d) {
    constexpr std::uint32_t rounds = 32;
    if (d.place < rounds && from_leader(d.mask, d.h.mailboxes[d.shard].in_flight()) != 0) {
        return true;
    }
    const bool late = simt::clock_ns() - d.since > d.h.reclaim_patience_ns;
    return from_leader(d.mask, late ? 1u : 0u) == 0 && refill_under_way(d) == d.shard + 1;
}

/// Delivers what answers are under way, so that grants which nobody waits for come to hand. Refills are waited for, if
/// not for too long; of the others those stay under way that a service parks.
inline ORCHARD_FN void collect_answers(dealings& d) {
    d.since = simt::clock_ns();
    ORCHARD_NO_UNROLL
    for (d.shard = 0; d.shard < d.h.shards; ++d.shard) {
        ORCHARD_NO_UNROLL
        for (d.place = 0; is_to_collect(d); ++d.place) {
            collect(d, d.shard);
            simt::pause(500);
        }
    }
    if (is_leader(d.mask)) {
        d.late_grants = late_grants(d.h);
        put_late_tails(d.h);
    }
}

/// Begins a reclaim (true), or waits for the one that goes on, but not for one that has lasted too long. All lanes.
inline ORCHARD_NOINLINE bool begin_reclaim(dealings& d) {
    auto& since = d.h.state->reclaiming.word;
    std::uint32_t first = 0;
    std::uint64_t began = 0;
    if (is_leader(d.mask)) {
        began = since.load<order::relaxed>();
        const std::uint64_t now = simt::clock_ns();
        const bool free = began == 0 || now - began > d.h.reclaim_patience_ns;
        first = free && since.compare_exchange<order::relaxed>(began, now) ? 1 : 0;
    }
    if (from_leader(d.mask, first) != 0) {
        begin_clearance(d);
        if (is_leader(d.mask)) {
            await_clearances(d);
        }
        simt::sync(d.mask);
        return true;
    }
    began = from_leader(d.mask, began);
    ORCHARD_NO_UNROLL
    for (bool over = false; !over;) {
        simt::pause(2'000);
        const bool late = simt::clock_ns() - began > d.h.reclaim_patience_ns;
        over = from_leader(d.mask, late || since.load<order::relaxed>() != began ? 1u : 0u) != 0;
    }
    return false;
}

/// Ends a reclaim, and says so where there was nothing to find: nobody else had anything in hand meanwhile.
inline ORCHARD_NOINLINE void end_reclaim(dealings& d) {
    if (is_leader(d.mask)) {
        auto& begun = d.h.state->clearances_begun.word;
        if (d.retired == 0 && d.emptied == 0 && d.alone && begun.fetch_add<order::acquire>(0) == d.clearance) {
            d.h.state->vain_reclaim.word.raise<order::release>(reclaim_in_vain{d.clearance, d.late_grants}.pack());
        }
        end_clearance(d);
        d.h.state->reclaiming.word.store<order::release>(0);  // pairs with who waits for what was found
    }
}

/// On shortage: retires empty slabs and hands the magazine back, so that the host can serve what it just could not.
/// One group at a time does it, the others wait for it.
inline ORCHARD_FN void reclaim(dealings& d) {
    if (!begin_reclaim(d)) {
        return;
    }
    d.retired = 0;
    d.emptied = 0;
    ORCHARD_NO_UNROLL
    for (d.page_class = 0; d.page_class < class_count; ++d.page_class) {
        retire_class(d);
    }
    collect_answers(d);
    drain(d);
    end_reclaim(d);
}

/// How many posts the mailboxes of a heap had when a group began to wait for their answers.
struct posts_before {
    std::uint64_t tickets[max_shards];

    ORCHARD_FN posts_before(const heap_view& h, lane_mask mask) {
        ORCHARD_NO_UNROLL
        for (std::uint32_t s = 0; s < h.shards; ++s) {
            tickets[s] = from_leader(mask, h.mailboxes[s].device->ticket.word.load<order::relaxed>());
        }
    }
    /// Whether as many have been answered and delivered.
    [[nodiscard]] ORCHARD_FN bool are_over(const heap_view& h, lane_mask mask) const {
        bool over = true;
        for (std::uint32_t s = 0; s < h.shards; ++s) {
            over = over && courier_word::flying(tickets[s], from_leader(mask, h.mailboxes[s].delivered())) == 0;
        }
        return over;
    }
};

/// Delivers answers until as many have come as there were posts, also while others post. Returns false at the mailbox's
/// deadline. All lanes of a converged group.
inline ORCHARD_FN bool deliver_what_is_posted(dealings& d, rounds_seen* seen) {
    const posts_before posted(d.h, d.mask);
    const std::uint64_t started = from_leader(d.mask, simt::clock_ns());
    while (!posted.are_over(d.h, d.mask)) {
        if (from_leader(d.mask, simt::clock_ns()) - started > d.h.mailboxes[0].timeout_ns) {
            return false;
        }
        for (std::uint32_t s = 0; s < d.h.shards; ++s) {
            d.box = &d.h.mailboxes[s];
            d.seen = seen[s];
            mailbox_client::go_round_again(d);
            seen[s] = d.seen;
        }
        simt::pause(1000);
    }
    return true;
}

/// Frees what the host has freed, hands the magazine back where `drain_too` says so, and delivers the answers of what
/// is posted. Where nobody else uses the heap nothing is under way then, and nothing in the magazine. All lanes of a
/// converged group.
inline ORCHARD_FN void settle(const heap_view& h, lane_mask mask, bool drain_too) {
    // What is delivered may be segments for the magazine; beside kernels there can always be more.
    constexpr int most_in_vain = 8;
    rounds_seen seen[max_shards]{};
    dealings d(h, mask);
    std::uint64_t freed = 0;
    (void)free_for_host(h, &freed);
    simt::sync(mask);
    std::uint32_t least = ~0u;
    int in_vain = 0;
    for (;;) {
        if (drain_too) {
            begin_clearance(d);
            drain(d);
            end_clearance(d);
        }
        const bool delivered = deliver_what_is_posted(d, seen);
        if (is_leader(mask)) {
            put_late_tails(h);
        }
        const std::uint32_t left = drain_too ? from_leader(mask, all_at_hand(h)) : 0;
        // Where slots are few, a pass hands back little.
        in_vain = left < least ? 0 : in_vain + 1;
        least = left < least ? left : least;
        if (!delivered || left == 0 || in_vain == most_in_vain) {
            return;
        }
    }
}

}  // namespace orchard::device
