// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Reclaims: on shortage, a group retires empty slabs and hands the segment cache back to the host. Also settles a heap
/// before the host looks at it.

#include "device/host_rpc/host_frees.cuh"
#include "device/host_rpc/request_segments.cuh"
#include "device/segment_cache/drain.cuh"
#include "device/small/empty_slabs.cuh"

namespace orchard::device {

/// Where a refill is under way, posted, and its segments not at hand yet: shard + 1; else 0. The newest value: a post
/// releases nothing that a load would have to see. All lanes.
inline ORCHARD_NOINLINE std::uint64_t refill_under_way(segment_request& d) {
    std::uint64_t shard = 0;
    if (is_leader(d.mask) && !simt::mutation::is(fault::refill_wait)) {
        shard = d.h.state->refill_in_flight.word.fetch_add<order::acquire>(0);
    }
    return from_leader(d.mask, shard);
}

/// Whether to stay for answers of `d.shard`: some rounds for what is under way, but until it is at hand for a refill,
/// which a poller that stands still may have in hand. All lanes.
inline ORCHARD_NOINLINE bool is_to_collect(segment_request& d) {
    constexpr std::uint32_t rounds = 32;
    if (d.cursor < rounds && from_leader(d.mask, d.h.mailboxes[d.shard].in_flight()) != 0) {
        return true;
    }
    const bool late = simt::clock_ns() - d.since > d.h.reclaim_patience_ns;
    return from_leader(d.mask, late ? 1u : 0u) == 0 && refill_under_way(d) == d.shard + 1;
}

/// Delivers what answers are under way, so that grants which nobody waits for come to hand. Refills are waited for, if
/// not for too long; of the others those stay under way that a service parks.
inline ORCHARD_FN void collect_answers(segment_request& d) {
    d.since = simt::clock_ns();
    ORCHARD_NO_UNROLL
    for (d.shard = 0; d.shard < d.h.shards; ++d.shard) {
        ORCHARD_NO_UNROLL
        for (d.cursor = 0; is_to_collect(d); ++d.cursor) {
            collect(d, d.shard);
            simt::pause(500);
        }
    }
    if (is_leader(d.mask)) {
        put_late_tails(d.h);
    }
}

/// Returns the number of the first reclaim that begins after this call: it finds all memory that was unused when the
/// caller found none. All lanes of a converged group.
inline ORCHARD_NOINLINE std::uint64_t next_reclaim(const heap_view& h, lane_mask mask) {
    // A read-modify-write reads the newest value: by an older one, a reclaim that has begun before would look like one
    // that begins later. It also releases: the group that reclaims must see all memory that was freed before.
    std::uint64_t reclaims = 0;
    if (is_leader(mask)) {
        reclaims = h.state->reclaims.word.fetch_add<order::acq_rel>(0);
    }
    reclaims = reclaim_count::number(from_leader(mask, reclaims));
    return reclaims + (reclaims % 2 == 0 || simt::mutation::is(fault::reclaim_age) ? 2 - reclaims % 2 : 3);
}

/// The state of a reclaim that a group needs: it is over, another group reclaims, or this group is to do it.
enum class reclaim_turn : std::uint32_t { over, other, own };

/// Looks whether the reclaim `d.reclaim` is over, and begins it where no other group is about one. A group that stands
/// still in one is waited for no longer than `reclaim_patience_ns`: another group begins it anew then. All lanes.
inline ORCHARD_NOINLINE reclaim_turn try_reclaim(segment_request& d) {
    reclaim_turn turn = reclaim_turn::other;
    if (is_leader(d.mask)) {
        auto& word = d.h.state->reclaims.word;
        std::uint64_t found = word.load<order::acquire>();
        const std::uint64_t now = simt::clock_ns();
        d.since = found == d.reclaims ? d.since : now;
        d.reclaims = found;
        if (reclaim_count::number(found) >= d.reclaim) {
            turn = reclaim_turn::over;
        } else if (found % 2 == 0 || now - d.since > d.h.reclaim_patience_ns) {
            const std::uint64_t begun = found + (found % 2 == 0 ? 1 : reclaim_count::next_owner);
            if (word.compare_exchange<order::acquire>(found, begun)) {
                d.reclaims = begun;
                turn = reclaim_turn::own;
            }
        }
    }
    return static_cast<reclaim_turn>(from_leader(d.mask, static_cast<std::uint32_t>(turn)));
}

/// Ends a reclaim, unless another group has begun it anew.
inline ORCHARD_NOINLINE void end_reclaim(segment_request& d) {
    if (is_leader(d.mask)) {
        std::uint64_t own = d.reclaims;
        d.h.state->reclaims.word.compare_exchange<order::release>(own, own + 1);
    }
}

/// Returns whether the segment cache is to be drained once more: where slots are few, a pass hands back little, and
/// what is acknowledged makes room for more. All lanes.
inline ORCHARD_NOINLINE bool needs_another_pass(segment_request& d) {
    constexpr std::uint32_t max_idle_passes = 8;
    d.idle_passes = d.emptied != d.kept ? 0 : d.idle_passes + 1;
    const bool more = d.kept != 0 && d.idle_passes != max_idle_passes;
    d.emptied = 0;
    d.kept = 0;
    return more;
}

/// Retires empty slabs and hands the segment cache back, so that the host can serve what it just could not.
inline ORCHARD_FN void gather(segment_request& d) {
    ORCHARD_NO_UNROLL
    for (d.page_class = 0; d.page_class < class_count; ++d.page_class) {
        retire_class(d);
    }
    do {
        collect_answers(d);
        drain(d);
    } while (needs_another_pass(d));
}

/// On shortage: returns when the reclaim with this number is over. One group at a time reclaims, the others wait for
/// it. All lanes of a converged group.
inline ORCHARD_NOINLINE void await_reclaim(const heap_view& h, lane_mask mask, std::uint64_t number) {
    segment_request d(h, mask);
    d.reclaim = number;
    d.reclaims = ~std::uint64_t{0};
    ORCHARD_NO_UNROLL
    for (;;) {
        const reclaim_turn turn = try_reclaim(d);
        if (turn == reclaim_turn::over) {
            break;
        }
        if (turn == reclaim_turn::other) {
            simt::pause(2'000);
            continue;
        }
        simt::sync(d.mask);
        gather(d);
        end_reclaim(d);
    }
    simt::sync(d.mask);  // what the leader has acquired
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
            over = over && poller_word::flying(tickets[s], from_leader(mask, h.mailboxes[s].delivered())) == 0;
        }
        return over;
    }
};

/// Delivers answers until as many have come as there were posts, also while others post. Returns false at the mailbox's
/// deadline. All lanes of a converged group.
inline ORCHARD_FN bool deliver_what_is_posted(segment_request& d, rounds_seen* seen) {
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

/// Frees what the host has freed, hands the segment cache back where `drain_too` says so, and delivers the answers of
/// what is posted. Where nobody else uses the heap nothing is under way then, and nothing in the segment cache. All
/// lanes of a converged group.
inline ORCHARD_FN void settle(const heap_view& h, lane_mask mask, bool drain_too) {
    // What is delivered may be segments for the segment cache; beside kernels there can always be more.
    constexpr int max_idle_passes = 8;
    rounds_seen seen[max_shards]{};
    segment_request d(h, mask);
    std::uint64_t freed = 0;
    (void)free_for_host(h, &freed);
    simt::sync(mask);
    std::uint32_t least = ~0u;
    int idle_passes = 0;
    for (;;) {
        if (drain_too) {
            drain(d);
        }
        const bool delivered = deliver_what_is_posted(d, seen);
        if (is_leader(mask)) {
            put_late_tails(h);
        }
        const std::uint32_t left = drain_too ? from_leader(mask, all_cached(h)) : 0;
        // Where slots are few, a pass hands back little.
        idle_passes = left < least ? 0 : idle_passes + 1;
        least = left < least ? left : least;
        if (!delivered || left == 0 || idle_passes == max_idle_passes) {
            return;
        }
    }
}

}  // namespace orchard::device
