// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Keeps the magazine's level: gets segments where it is low, hands some back to the host where it is high.

#include "device/host_rpc/segment_request.cuh"

namespace orchard::device {

/// What the magazine's level asks for: nothing, a post for more, to collect what was posted for, or to hand some back.
enum class level_step : std::uint32_t { none, post, collect, hand_back };

/// All lanes.
inline ORCHARD_NOINLINE level_step plan_level(dealings& d) {
    const heap_view& h = d.h;
    const std::uint32_t level = from_leader(d.mask, magazine_level(h));
    if (level > h.magazine_most) {
        return level_step::hand_back;
    }
    if (level * 2 >= h.magazine_target) {
        return level_step::none;
    }
    std::uint64_t before = 0;
    if (is_leader(d.mask)) {
        h.state->refill_in_flight.word.compare_exchange<order::relaxed>(before, d.home + 1);
    }
    const std::uint32_t posted_to = from_leader(d.mask, static_cast<std::uint32_t>(before));
    d.shard = posted_to - 1;
    return posted_to == 0 ? level_step::post : level_step::collect;
}

/// Makes ready to post for as many as are missing, `refill_batch` at the least.
inline ORCHARD_NOINLINE void prepare_refill(dealings& d) {
    const std::uint32_t level = magazine_level(d.h);
    const std::uint32_t missing = d.h.magazine_target > level ? d.h.magazine_target - level : 0;
    const std::uint32_t most = missing < mailbox::max_refill ? missing : mailbox::max_refill;
    const std::uint32_t count = most > d.h.refill_batch ? most : d.h.refill_batch;
    prepare_post(d, d.home, {mailbox::post_kind::grant, 0, 0, {segment_index{0}, count}, true}, true);
}

/// After that post.
inline ORCHARD_NOINLINE void end_refill(dealings& d, bool over) {
    if (!is_leader(d.mask)) {
        return;
    }
    if (over && d.post.made.failure == failure_reason::none) {
        d.h.add(counter::refills, 1);
        d.h.add(counter::posts, 1);
    } else {
        // No plain store: a reader of this 0 acquires what earlier refills have brought.
        d.h.state->refill_in_flight.word.fetch_and<order::relaxed>(0);
    }
}

/// Keeps the magazine's level: posts for more without waiting, or collects what was posted for, or hands back what is
/// too much.
inline ORCHARD_FN void level_magazine(dealings& d) {
    switch (plan_level(d)) {
        case level_step::none: return;
        case level_step::post: prepare_refill(d); return end_refill(d, posts::try_post(d, posts::quick_attempts));
        case level_step::collect: return collect(d, d.shard);
        case level_step::hand_back: return hand_back_surplus(d, d.h.magazine_most, returns_at_once);
    }
}

/// The same for a lane that has taken a segment of the magazine by itself. All lanes of a converged group.
inline ORCHARD_NOINLINE void refill_magazine(const heap_view& h, lane_mask mask) {
    dealings d(h, mask);
    level_magazine(d);
}

}  // namespace orchard::device
