// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Between magazine and host: keeps the magazine's level, hands segments back.

#include "device/magazine.cuh"
#include "device/slab.cuh"

namespace orchard::device {

/// Where answers go that nobody waits for: grants into the magazine.
struct magazine_sink {
    const heap_view& h;
    ORCHARD_FN void operator()(answer_status status, segment_run run) const {
        if (status == answer_status::granted) {
            magazine_put(h, run);
            h.add(counter::late_answers, 1);
        }
        if (status != answer_status::acknowledged) {
            h.state->refill_in_flight.word.store<order::relaxed>(0);
        }
    }
};

/// Whether the heap is being closed.
ORCHARD_INLINE bool is_closing(const heap_view& h) {
    const auto shard = static_cast<std::uint32_t>(simt::position().global_warp()) % flag_shards;
    return h.state->closing[shard].word.load<order::relaxed>() != 0;
}

/// The mailbox that serves this warp first.
ORCHARD_INLINE std::uint32_t home_shard(const heap_view& h) {
    return h.shards == 1 ? 0 : static_cast<std::uint32_t>(simt::position().global_warp()) % h.shards;
}

/// The mailbox whose service owns a segment.
ORCHARD_INLINE std::uint32_t owner_shard(const heap_view& h, std::uint32_t segment) {
    const std::uint32_t s = h.shards == 1 ? 0 : segment / h.segments_per_shard;
    return s < h.shards ? s : h.shards - 1;
}

/// What a group that deals with the host keeps in its memory meanwhile, for the reason that `mailbox_client.cuh` gives.
struct dealings : errand_with<magazine_sink> {
    const heap_view& h;
    std::uint32_t home;     ///< the shard that this warp asks first
    std::uint32_t shard;    ///< that is being dealt with
    segment_run run;        ///< to be handed back; then what was got
    std::uint32_t keep;     ///< segments that are to stay in the magazine
    std::uint32_t returns;  ///< runs that may be handed back yet
    // Of a request.
    std::uint32_t k;      ///< segments that are wanted
    std::uint32_t asked;  ///< shards, in this attempt
    std::uint32_t attempt = 0;
    failure_reason why = failure_reason::none;
    segment_run* result = nullptr;
    // Of a reclaim.
    std::uint32_t page_class;
    std::uint32_t place;        ///< in the slab table, or the magazine's words: below it all lanes have looked
    std::uint32_t own;          ///< what this lane has found there: the entry, or the word's index
    lane_mask holders;          ///< lanes that have found something
    std::uint32_t segment;      ///< of the slab that may be empty
    std::uint32_t retired = 0;  ///< slabs
    std::uint64_t bits;         ///< of the magazine's word that this lane has taken out
    std::uint64_t left;         ///< of the word that is being handed back
    std::uint32_t left_word;

    ORCHARD_FN dealings(const heap_view& heap, lane_mask m)
        : errand_with{heap.mailboxes, m, magazine_sink{heap}}, h{heap}, home{home_shard(heap)} {}
};

/// Frees a run of segments: puts it into the magazine. All lanes of a converged group, of which the leader has
/// acquired what the others did to the memory. Never waits.
inline ORCHARD_FN void release_segments(const heap_view& h, lane_mask mask, segment_run run) {
    if (is_leader(mask)) {
        magazine_put(h, run);
    }
}

/// Delivers what answers of a shard there are.
inline ORCHARD_FN void collect(dealings& d, std::uint32_t shard) {
    d.box = &d.h.mailboxes[shard];
    mailbox_client::go_round(d);
}

/// Makes ready to post to a shard.
inline ORCHARD_FN void prepare_post(dealings& d, std::uint32_t shard, mailbox::post request, bool unattended) {
    d.box = &d.h.mailboxes[shard];
    d.post.begin(request, unattended);
}

/// Makes ready to post the run `d.run`, at most 64 segments of one word, back to the host.
inline ORCHARD_NOINLINE void prepare_return(dealings& d) {
    d.shard = owner_shard(d.h, to_underlying(d.run.first));
    prepare_post(d, d.shard, {mailbox::post_kind::give_back, 0, 0, d.run, false}, true);
}

/// After that post; where no slot was free the run goes back into the magazine. Whether so much is under way that
/// somebody must read the acknowledgements, or the slots run out.
inline ORCHARD_NOINLINE bool end_return(dealings& d, bool posted) {
    if (is_leader(d.mask)) {
        if (posted) {
            d.h.add(counter::posts, 1);
            d.h.add(counter::returns, 1);
        } else {
            magazine_put(d.h, d.run);
        }
    }
    return from_leader(d.mask, d.box->in_flight()) > d.box->shape.slots / 2;
}

/// Hands the run `d.run` back to the host. Never waits for an answer.
inline ORCHARD_FN void hand_back(dealings& d) {
    prepare_return(d);
    if (end_return(d, posts::try_post(d, posts::quick_attempts))) {
        collect(d, d.shard);
    }
}

/// Takes a run of `k` segments (0: some run) from the magazine into `d.run`, if it can. All lanes.
inline ORCHARD_NOINLINE bool take_at_hand(dealings& d, std::uint32_t k) {
    d.why = failure_reason::none;
    return search_magazine(d.h, d.mask, k, &d.run);
}

/// Takes the next run that is to be handed back out of the magazine, where that has more than `d.keep` segments.
inline ORCHARD_NOINLINE bool take_surplus(dealings& d) {
    if (d.returns == 0 || from_leader(d.mask, magazine_level(d.h)) <= d.keep) {
        return false;
    }
    --d.returns;
    return search_magazine(d.h, d.mask, 0, &d.run);
}

/// Hands up to `most` runs of the magazine back to the host, until `keep` segments or less are left.
inline ORCHARD_FN void hand_back_surplus(dealings& d, std::uint32_t keep, std::uint32_t most) {
    d.keep = keep;
    d.returns = most;
    ORCHARD_NO_UNROLL
    while (take_surplus(d)) {
        hand_back(d);
    }
}

/// Runs that one request hands back at most, beside those that it may itself have use for.
inline constexpr std::uint32_t returns_at_once = 4;

/// What the magazine's level asks for: nothing, a post for more, to collect what was posted for, or to hand some back.
enum class level_step : std::uint32_t { none, post, collect, hand_back };

/// All lanes.
inline ORCHARD_NOINLINE level_step plan_level(const dealings& d) {
    const heap_view& h = d.h;
    const std::uint32_t level = from_leader(d.mask, magazine_level(h));
    if (level > 2 * h.magazine_target) {
        return level_step::hand_back;
    }
    if (level * 2 >= h.magazine_target) {
        return level_step::none;
    }
    std::uint32_t first = 0;
    if (is_leader(d.mask)) {
        std::uint64_t expected = 0;
        first = h.state->refill_in_flight.word.compare_exchange<order::relaxed>(expected, 1) ? 1 : 0;
    }
    return from_leader(d.mask, first) != 0 ? level_step::post : level_step::collect;
}

/// Makes ready to post for more.
inline ORCHARD_NOINLINE void prepare_refill(dealings& d) {
    prepare_post(d, d.home, {mailbox::post_kind::grant, 0, 0, {segment_index{0}, d.h.refill_batch}, true}, true);
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
        d.h.state->refill_in_flight.word.store<order::relaxed>(0);
    }
}

/// Keeps the magazine's level: posts for more without waiting, or collects what was posted for, or hands back what is
/// over twice its target.
inline ORCHARD_FN void level_magazine(dealings& d) {
    switch (plan_level(d)) {
        case level_step::none: return;
        case level_step::post: prepare_refill(d); return end_refill(d, posts::try_post(d, posts::quick_attempts));
        case level_step::collect: return collect(d, d.home);
        case level_step::hand_back: return hand_back_surplus(d, d.h.magazine_target, returns_at_once);
    }
}

/// The same for who has taken a segment of the magazine himself. All lanes of a converged group.
inline ORCHARD_NOINLINE void refill_magazine(const heap_view& h, lane_mask mask) {
    dealings d(h, mask);
    level_magazine(d);
}

/// Takes the magazine's words out, and says the next run to be handed back (`d.run`); false at the end. All lanes.
inline ORCHARD_NOINLINE bool next_drained(dealings& d) {
    ORCHARD_NO_UNROLL
    while (d.left == 0) {
        if (d.holders != 0) {
            const int lane = simt::lowest_bit(d.holders);
            d.holders &= d.holders - 1;
            d.left = simt::shuffle(d.mask, d.bits, lane);
            d.left_word = simt::shuffle(d.mask, d.own, lane);
            continue;
        }
        if (d.place >= d.h.magazine_words()) {
            return false;
        }
        d.own = d.place + static_cast<std::uint32_t>(simt::rank_in(d.mask));
        d.bits = d.own < d.h.magazine_words() ? magazine_drain_word(d.h, d.own) : 0;
        d.holders = simt::ballot(d.mask, d.bits != 0);
        d.place += static_cast<std::uint32_t>(simt::popcount(d.mask));
        if (d.holders != 0) {
            simt::sync(d.mask);  // what each lane acquired with its word, the leader releases with its posts
        }
    }
    const std::uint64_t run = lowest_run(d.left);
    d.left &= ~run;
    d.run = {segment_index{d.left_word * 64 + static_cast<std::uint32_t>(simt::lowest_bit(run))},
             static_cast<std::uint32_t>(simt::popcount(run))};
    return true;
}

/// Hands the whole magazine back to the host.
inline ORCHARD_FN void drain(dealings& d) {
    d.place = 0;
    d.left = 0;
    d.holders = 0;
    ORCHARD_NO_UNROLL
    while (next_drained(d)) {
        hand_back(d);
    }
}

/// The same. All lanes of a converged group.
inline ORCHARD_NOINLINE void drain_magazine(const heap_view& h, lane_mask mask) {
    dealings d(h, mask);
    drain(d);
}

}  // namespace orchard::device
