// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Keeps the segment cache's level: gets segments if it is low, returns some to the host if it is high. A group does
/// this after it has got segments, so that no thread of its own is needed for it.
///
///     0          target / 2                             cache_max               (heap_view::cache_target, cache_max)
///     | refill   | nothing is done                      | return up to four runs
///     | or collect
///
/// The group never waits here. A refill is posted without a waiter: the poller that delivers the response puts its
/// segments into the segment cache (`cache_completion`). One refill is under way at a time in a heap, since each of
/// many groups that see a low level would otherwise ask for all that is missing. `heap_state::refill_in_flight` says
/// whether one is:
///
///     0 --(`plan_level`)--> 1 --(`end_refill` if it was not posted, else `cache_completion`)--> 0

#include "device/segments/segment_request.cuh"

namespace orchard::device {

/// What the segment cache's level requires: nothing, a request for more segments, to collect the response to an earlier
/// such request, or to return some.
enum class level_step : std::uint32_t { none, refill, collect, hand_back };

/// Returns what the level `d.level` requires. For `refill`, the group has reserved the heap's one refill
/// (`refill_in_flight`); for `collect`, another one is under way; for `none`, the level is not low, or this group need
/// not collect. All lanes of the group call it. Cost: nothing; a compare-and-swap if the level is low.
///
/// A group collects because the refill's ring may have no waiting group, and so no poller. One group in eight does: of
/// 512 groups that find the level low at once, each would otherwise look at all rings. The swap is relaxed: it only
/// reserves the right to post. A group that needs the segments themselves acquires the word (`refill_under_way`).
inline ORCHARD_NOINLINE level_step plan_level(cache_upkeep& d) {
    constexpr std::uint32_t collectors = 8;  // one in so many
    const heap_view& h = d.h;
    if (d.level > h.cache_max) {
        return level_step::hand_back;
    }
    if (d.level * 2 >= h.cache_target) {
        return level_step::none;
    }
    std::uint64_t before = 0;
    if (is_leader(d.mask)) {
        h.state->refill_in_flight.word.compare_exchange<order::relaxed>(before, 1);
    }
    return from_leader(d.mask, before) == 0                            ? level_step::refill
           : from_leader(d.mask, mix(simt::noise()) % collectors) == 0 ? level_step::collect
                                                                       : level_step::none;
}

/// Prepares a request for the missing segments, for `refill_batch` at least, and for at most 63, which a response can
/// count. The service may grant fewer. All lanes of the group call it. With a target of 64 and a level of 20, the
/// request is for 44 segments.
inline ORCHARD_NOINLINE void prepare_refill(cache_upkeep& d) {
    const std::uint32_t level = cache_level(d.h);
    const std::uint32_t missing = d.h.cache_target > level ? d.h.cache_target - level : 0;
    const std::uint32_t most = missing < mailbox::max_refill ? missing : mailbox::max_refill;
    const std::uint32_t count = most > d.h.refill_batch ? most : d.h.refill_batch;
    d.post.begin({mailbox::request_kind::grant, 0, 0, {segment_index{0}, count}, true}, true);
}

/// Counts the refill if it was posted; otherwise gives up the reservation of the refill. All lanes of the group call
/// it.
/// @param over  the result of `try_post`: false if each slot that was tried was in use
inline ORCHARD_NOINLINE void end_refill(cache_upkeep& d, bool over) {
    if (!is_leader(d.mask)) {
        return;
    }
    if (over && d.post.made.failure == failure_reason::none) {
        d.h.add(counter::refills, 1);
        d.h.add(counter::host_requests, 1);
    } else {
        // A read-modify-write continues the release sequence of `cache_completion`: a group that reads this 0 still
        // acquires what earlier refills have brought.
        d.h.state->refill_in_flight.word.fetch_and<order::relaxed>(0);
    }
}

/// Keeps the segment cache's level `d.level`: posts for more segments without waiting, collects the response to an
/// earlier request, or returns the surplus. All lanes of the group call it. Cost: usually nothing.
inline ORCHARD_FN void level_cache(cache_upkeep& d) {
    switch (plan_level(d)) {
        case level_step::none: return;
        case level_step::refill: prepare_refill(d); return end_refill(d, sending::try_post(d, sending::quick_attempts));
        case level_step::collect: return mailbox_client::go_round(d);
        case level_step::hand_back: return hand_back_surplus(d, d.h.cache_max, returns_at_once);
    }
}

/// The same for a lane that has taken a segment from the segment cache by itself (`grow_ahead`). All lanes of a
/// converged group call it.
inline ORCHARD_NOINLINE void refill_cache(const heap_view& h, lane_mask mask) {
    cache_upkeep d(h, mask);
    read_level(d);
    level_cache(d);
}

}  // namespace orchard::device
